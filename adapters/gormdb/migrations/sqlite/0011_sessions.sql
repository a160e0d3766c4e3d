-- +goose Up
-- Who is signed in from where. A session of a token that names none stays when it
-- ended; any other that ended is gone.
CREATE TABLE sessions (
    id           TEXT NOT NULL PRIMARY KEY,
    org_id       TEXT, -- null for tokens without an organisation
    user_id      TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    address      TEXT NOT NULL,
    user_agent   TEXT NOT NULL,
    is_unnamed   INTEGER NOT NULL,
    is_ended     INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_user ON sessions (user_id, last_used_at);
CREATE INDEX sessions_org ON sessions (org_id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

-- The identity provider has banned or locked the user.
ALTER TABLE users ADD COLUMN is_blocked INTEGER NOT NULL DEFAULT 0;

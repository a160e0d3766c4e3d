-- +goose Up
-- Who is signed in from where. A session of a token that names none stays when it
-- ended; any other that ended is gone.
CREATE TABLE sessions (
    id           TEXT NOT NULL PRIMARY KEY,
    org_id       UUID, -- null for tokens without an organisation
    user_id      UUID NOT NULL,
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    address      TEXT NOT NULL,
    user_agent   TEXT NOT NULL,
    is_unnamed   BOOLEAN NOT NULL,
    is_ended     BOOLEAN NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id, last_used_at);
CREATE INDEX sessions_org ON sessions (org_id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

-- The identity provider has banned or locked the user.
ALTER TABLE users ADD COLUMN is_blocked BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Up
-- A member's tokens of one day, by its first millisecond. Whoever reserves or
-- gives back changes this row before any of its leases.
CREATE TABLE quota_accounts (
    org_id   TEXT NOT NULL,
    user_id  TEXT NOT NULL,
    day      INTEGER NOT NULL,
    used     INTEGER NOT NULL,
    reserved INTEGER NOT NULL, -- the sum of what its leases hold
    granted  INTEGER NOT NULL, -- by the last reservation
    PRIMARY KEY (org_id, user_id, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE quota_leases (
    org_id     TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    day        INTEGER NOT NULL,
    id         TEXT NOT NULL,
    tokens     INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, user_id, day, id),
    FOREIGN KEY (org_id, user_id, day) REFERENCES quota_accounts (org_id, user_id, day) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX quota_leases_expiry ON quota_leases (expires_at);

-- The ledger is only ever appended to, and lies in the order of its times: what
-- a summary reads of it is side by side.
CREATE TABLE usage_entries (
    org_id     TEXT NOT NULL,
    id         TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    at         INTEGER NOT NULL,
    day        INTEGER NOT NULL, -- the first millisecond of the one that at is in
    model      TEXT NOT NULL,
    provider   TEXT NOT NULL,
    input      INTEGER NOT NULL,
    output     INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_made INTEGER NOT NULL,
    searches   INTEGER NOT NULL,
    provenance TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    PRIMARY KEY (org_id, at, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX usage_entries_id ON usage_entries (org_id, id);
-- A part of a day is summed for each user from this index alone, in its order.
CREATE INDEX usage_entries_user ON usage_entries (org_id, day, user_id, at, input, output);

-- The ledger's sums, each for one of the questions that summaries answer. They
-- change with the ledger and can be made from it anew.
CREATE TABLE usage_user_models (
    org_id   TEXT NOT NULL,
    user_id  TEXT NOT NULL,
    day      INTEGER NOT NULL,
    model    TEXT NOT NULL,
    input    INTEGER NOT NULL,
    output   INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (org_id, user_id, day, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_users (
    org_id   TEXT NOT NULL,
    day      INTEGER NOT NULL,
    user_id  TEXT NOT NULL,
    input    INTEGER NOT NULL,
    output   INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (org_id, day, user_id)
) STRICT, WITHOUT ROWID;

-- A sum that all members share is kept in several rows, so that requests that
-- end at the same time do not wait for each other's commit. It is of a quarter of
-- a day, so that few entries are left to sum where a period begins or ends.
CREATE TABLE usage_models (
    org_id   TEXT NOT NULL,
    since    INTEGER NOT NULL, -- the quarter's first millisecond
    model    TEXT NOT NULL,
    lane     TEXT NOT NULL, -- the last digit of the user's id
    input    INTEGER NOT NULL,
    output   INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (org_id, since, model, lane)
) STRICT, WITHOUT ROWID;

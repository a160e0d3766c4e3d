-- +goose Up
-- A member's tokens of one day, by its first millisecond. Whoever reserves or
-- gives back changes this row before any of its leases.
CREATE TABLE quota_accounts (
    org_id   UUID NOT NULL,
    user_id  UUID NOT NULL,
    day      BIGINT NOT NULL,
    used     BIGINT NOT NULL,
    reserved BIGINT NOT NULL, -- the sum of what its leases hold
    granted  BIGINT NOT NULL, -- by the last reservation
    PRIMARY KEY (org_id, user_id, day)
) WITH (fillfactor = 70);

CREATE TABLE quota_leases (
    org_id     UUID NOT NULL,
    user_id    UUID NOT NULL,
    day        BIGINT NOT NULL,
    id         UUID NOT NULL,
    tokens     BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, user_id, day, id),
    FOREIGN KEY (org_id, user_id, day) REFERENCES quota_accounts (org_id, user_id, day) ON DELETE CASCADE
);
CREATE INDEX quota_leases_expiry ON quota_leases (expires_at);

-- The ledger is only ever appended to.
CREATE TABLE usage_entries (
    org_id     UUID NOT NULL,
    id         UUID NOT NULL,
    user_id    UUID NOT NULL,
    at         BIGINT NOT NULL,
    day        BIGINT NOT NULL, -- the first millisecond of the one that at is in
    model      TEXT NOT NULL,
    provider   TEXT NOT NULL,
    input      BIGINT NOT NULL,
    output     BIGINT NOT NULL,
    cache_read BIGINT NOT NULL,
    cache_made BIGINT NOT NULL,
    searches   BIGINT NOT NULL,
    provenance TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX usage_entries_order ON usage_entries (org_id, at, id);
-- A part of a day is summed for each user from this index alone, in its order.
CREATE INDEX usage_entries_user ON usage_entries (org_id, day, user_id, at, input, output);

-- The ledger's sums, each for one of the questions that summaries answer. They
-- change with the ledger and can be made from it anew.
CREATE TABLE usage_user_models (
    org_id   UUID NOT NULL,
    user_id  UUID NOT NULL,
    day      BIGINT NOT NULL,
    model    TEXT NOT NULL,
    input    BIGINT NOT NULL,
    output   BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    PRIMARY KEY (org_id, user_id, day, model)
) WITH (fillfactor = 70);

CREATE TABLE usage_users (
    org_id   UUID NOT NULL,
    day      BIGINT NOT NULL,
    user_id  UUID NOT NULL,
    input    BIGINT NOT NULL,
    output   BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    PRIMARY KEY (org_id, day, user_id)
) WITH (fillfactor = 70);

-- A sum that all members share is kept in several rows, so that requests that
-- end at the same time do not wait for each other's commit. It is of a quarter of
-- a day, so that few entries are left to sum where a period begins or ends.
CREATE TABLE usage_models (
    org_id   UUID NOT NULL,
    since    BIGINT NOT NULL, -- the quarter's first millisecond
    model    TEXT NOT NULL,
    lane     TEXT NOT NULL, -- the last digit of the user's id
    input    BIGINT NOT NULL,
    output   BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    PRIMARY KEY (org_id, since, model, lane)
) WITH (fillfactor = 50);

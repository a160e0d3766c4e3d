-- +goose Up
-- Members' requests for archives of their organisations. One of an organisation is open: its
-- due_at says when a server may claim it.
CREATE TABLE exports (
    org_id      TEXT NOT NULL,
    id          TEXT NOT NULL,
    user_id     TEXT NOT NULL,
    status      TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    claim       TEXT,
    due_at      INTEGER,
    attempts    INTEGER NOT NULL,
    records     INTEGER NOT NULL,
    files       INTEGER NOT NULL,
    files_done  INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    blob        TEXT,
    size        INTEGER NOT NULL,
    finished_at INTEGER,
    expires_at  INTEGER,
    error       TEXT NOT NULL,
    PRIMARY KEY (org_id, id)
) STRICT;
CREATE UNIQUE INDEX exports_open ON exports (org_id) WHERE due_at IS NOT NULL;
CREATE INDEX exports_due ON exports (due_at, org_id, id) WHERE due_at IS NOT NULL;
CREATE INDEX exports_order ON exports (org_id, created_at, id);
CREATE INDEX exports_created ON exports (created_at);

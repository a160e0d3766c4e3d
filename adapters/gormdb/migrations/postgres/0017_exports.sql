-- +goose Up
-- Members' requests for archives of their organisations. One of an organisation is open: its
-- due_at says when a server may claim it.
CREATE TABLE exports (
    org_id      UUID NOT NULL,
    id          UUID NOT NULL,
    user_id     UUID NOT NULL,
    status      TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    claim       TEXT,
    due_at      BIGINT,
    attempts    BIGINT NOT NULL,
    records     BIGINT NOT NULL,
    files       BIGINT NOT NULL,
    files_done  BIGINT NOT NULL,
    bytes       BIGINT NOT NULL,
    blob        TEXT COLLATE "C",
    size        BIGINT NOT NULL,
    finished_at BIGINT,
    expires_at  BIGINT,
    error       TEXT NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX exports_open ON exports (org_id) WHERE due_at IS NOT NULL;
CREATE INDEX exports_due ON exports (due_at, org_id, id) WHERE due_at IS NOT NULL;
CREATE INDEX exports_order ON exports (org_id, created_at, id);
CREATE INDEX exports_created ON exports (created_at);

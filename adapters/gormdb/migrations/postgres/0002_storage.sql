-- +goose Up
-- One row: what tells the logs of this database from those of another, which
-- may count through the same numbers. Whoever restores a database from a copy
-- writes a greater one.
CREATE TABLE log_epoch (
    epoch BIGINT NOT NULL PRIMARY KEY
);
CREATE UNIQUE INDEX log_epoch_one ON log_epoch ((epoch IS NOT NULL)); -- there is one row
INSERT INTO log_epoch (epoch) SELECT floor(extract(epoch FROM clock_timestamp()))::bigint;

-- The last number of each organisation's log, and the last one that was removed
-- from it. Whoever changes an organisation's objects locks its row.
CREATE TABLE log_heads (
    org_id UUID NOT NULL PRIMARY KEY REFERENCES organisations (id),
    n      BIGINT NOT NULL,
    floor  BIGINT NOT NULL
) WITH (fillfactor = 50);

-- Keys are compared as bytes. Who sees an object, and what most filters select,
-- is a range of them.
CREATE TABLE objects (
    org_id          UUID NOT NULL,
    id              UUID NOT NULL,
    storage_key     TEXT COLLATE "C" NOT NULL,
    folded_key      TEXT COLLATE "C" NOT NULL, -- the key as it is compared with others
    path            TEXT NOT NULL,
    kind            TEXT NOT NULL,
    scope           TEXT NOT NULL,
    workspace_id    UUID, -- of a personal object only a note
    in_workspace_id UUID, -- the same, of a shared one
    team_id         UUID,
    owner_id        UUID,
    mime_type       TEXT NOT NULL,
    version         BIGINT NOT NULL,
    created_by      UUID NOT NULL,
    updated_by      UUID NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    blob            TEXT COLLATE "C" NOT NULL,
    size            BIGINT NOT NULL,
    checksum        TEXT NOT NULL,
    is_text         BOOLEAN NOT NULL,
    n               BIGINT NOT NULL, -- of the last change in the log
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, in_workspace_id) REFERENCES workspaces (org_id, id),
    FOREIGN KEY (org_id, team_id) REFERENCES teams (org_id, id)
);
CREATE UNIQUE INDEX objects_folded ON objects (org_id, folded_key);
CREATE INDEX objects_order ON objects (org_id, storage_key);
CREATE INDEX objects_changed ON objects (org_id, n);
CREATE INDEX objects_blob ON objects (blob);
CREATE INDEX objects_workspace ON objects (org_id, in_workspace_id) WHERE in_workspace_id IS NOT NULL;
CREATE INDEX objects_team ON objects (org_id, team_id) WHERE team_id IS NOT NULL;

CREATE TABLE changes (
    org_id   UUID NOT NULL,
    n        BIGINT NOT NULL,
    type     TEXT NOT NULL,
    at       BIGINT NOT NULL,
    by_user  UUID,
    record   TEXT, -- JSON: the whole object, of a deletion as it was
    audience TEXT, -- JSON
    PRIMARY KEY (org_id, n)
);
CREATE INDEX changes_at ON changes (at);
CREATE INDEX changes_apart ON changes (org_id, type, n) WHERE type <> 'file-changed';

-- There is one store of blobs, and so the name alone is the key.
CREATE TABLE blob_names (
    name         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    org_id       UUID NOT NULL,
    is_discarded BOOLEAN NOT NULL,
    at           BIGINT NOT NULL
);
CREATE INDEX blob_names_announced ON blob_names (at) WHERE NOT is_discarded;

-- +goose Up
-- One row: what tells the logs of this database from those of another, which
-- may count through the same numbers. Whoever restores a database from a copy
-- writes a greater one.
CREATE TABLE log_epoch (
    epoch INTEGER NOT NULL PRIMARY KEY
) STRICT;
CREATE UNIQUE INDEX log_epoch_one ON log_epoch (epoch IS NOT NULL); -- there is one row
INSERT INTO log_epoch (epoch) SELECT unixepoch();

-- The last number of each organisation's log, and the last one that was removed
-- from it. Whoever changes an organisation's objects locks its row.
CREATE TABLE log_heads (
    org_id TEXT NOT NULL PRIMARY KEY REFERENCES organisations (id),
    n      INTEGER NOT NULL,
    floor  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys are compared as bytes. Who sees an object, and what most filters select,
-- is a range of them.
CREATE TABLE objects (
    org_id          TEXT NOT NULL,
    id              TEXT NOT NULL,
    storage_key     TEXT NOT NULL,
    folded_key      TEXT NOT NULL, -- the key as it is compared with others
    path            TEXT NOT NULL,
    kind            TEXT NOT NULL,
    scope           TEXT NOT NULL,
    workspace_id    TEXT, -- of a personal object only a note
    in_workspace_id TEXT, -- the same, of a shared one
    team_id         TEXT,
    owner_id        TEXT,
    mime_type       TEXT NOT NULL,
    version         INTEGER NOT NULL,
    created_by      TEXT NOT NULL,
    updated_by      TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    blob            TEXT NOT NULL,
    size            INTEGER NOT NULL,
    checksum        TEXT NOT NULL,
    is_text         INTEGER NOT NULL,
    n               INTEGER NOT NULL, -- of the last change in the log
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, in_workspace_id) REFERENCES workspaces (org_id, id),
    FOREIGN KEY (org_id, team_id) REFERENCES teams (org_id, id)
) STRICT;
CREATE UNIQUE INDEX objects_folded ON objects (org_id, folded_key);
CREATE INDEX objects_order ON objects (org_id, storage_key);
CREATE INDEX objects_changed ON objects (org_id, n);
CREATE INDEX objects_blob ON objects (blob);
CREATE INDEX objects_workspace ON objects (org_id, in_workspace_id) WHERE in_workspace_id IS NOT NULL;
CREATE INDEX objects_team ON objects (org_id, team_id) WHERE team_id IS NOT NULL;

CREATE TABLE changes (
    org_id   TEXT NOT NULL,
    n        INTEGER NOT NULL,
    type     TEXT NOT NULL,
    at       INTEGER NOT NULL,
    by_user  TEXT,
    record   TEXT, -- JSON: the whole object, of a deletion as it was
    audience TEXT, -- JSON
    PRIMARY KEY (org_id, n)
) STRICT;
CREATE INDEX changes_at ON changes (at);
CREATE INDEX changes_apart ON changes (org_id, type, n) WHERE type <> 'file-changed';

-- There is one store of blobs, and so the name alone is the key.
CREATE TABLE blob_names (
    name         TEXT NOT NULL PRIMARY KEY,
    org_id       TEXT NOT NULL,
    is_discarded INTEGER NOT NULL,
    at           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_names_announced ON blob_names (at) WHERE NOT is_discarded;

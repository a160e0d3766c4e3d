-- +goose Up
-- Earlier versions of objects, each with a blob of its own, until they expire. Deleted_key is set on
-- the last version of a deleted object: its storage key and id, by which deleted objects are listed.
CREATE TABLE object_versions (
    org_id       TEXT NOT NULL,
    object_id    TEXT NOT NULL,
    version      INTEGER NOT NULL,
    deleted_key  TEXT,
    path         TEXT NOT NULL,
    kind         TEXT NOT NULL,
    scope        TEXT NOT NULL,
    workspace_id TEXT,
    team_id      TEXT,
    owner_id     TEXT,
    mime_type    TEXT NOT NULL,
    created_by   TEXT NOT NULL,
    updated_by   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    blob         TEXT NOT NULL,
    size         INTEGER NOT NULL,
    checksum     TEXT NOT NULL,
    is_text      INTEGER NOT NULL,
    ended_at     INTEGER NOT NULL,
    ended_by     TEXT,
    expires_at   INTEGER NOT NULL,
    PRIMARY KEY (org_id, object_id, version)
) STRICT;
CREATE UNIQUE INDEX object_versions_blob ON object_versions (blob);
CREATE INDEX object_versions_expiry ON object_versions (org_id, expires_at, version);
CREATE INDEX object_versions_deleted ON object_versions (org_id, deleted_key) WHERE deleted_key IS NOT NULL;
ALTER TABLE log_heads ADD COLUMN version_bytes INTEGER NOT NULL DEFAULT 0;

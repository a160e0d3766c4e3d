-- +goose Up
-- Earlier versions of objects, each with a blob of its own, until they expire. Deleted_key is set on
-- the last version of a deleted object: its storage key and id, by which deleted objects are listed.
CREATE TABLE object_versions (
    org_id       UUID NOT NULL,
    object_id    UUID NOT NULL,
    version      BIGINT NOT NULL,
    deleted_key  TEXT COLLATE "C",
    path         TEXT NOT NULL,
    kind         TEXT NOT NULL,
    scope        TEXT NOT NULL,
    workspace_id UUID,
    team_id      UUID,
    owner_id     UUID,
    mime_type    TEXT NOT NULL,
    created_by   UUID NOT NULL,
    updated_by   UUID NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    blob         TEXT COLLATE "C" NOT NULL,
    size         BIGINT NOT NULL,
    checksum     TEXT NOT NULL,
    is_text      BOOLEAN NOT NULL,
    ended_at     BIGINT NOT NULL,
    ended_by     UUID,
    expires_at   BIGINT NOT NULL,
    PRIMARY KEY (org_id, object_id, version)
);
CREATE UNIQUE INDEX object_versions_blob ON object_versions (blob);
CREATE INDEX object_versions_expiry ON object_versions (org_id, expires_at, version);
CREATE INDEX object_versions_deleted ON object_versions (org_id, deleted_key) WHERE deleted_key IS NOT NULL;
ALTER TABLE log_heads ADD COLUMN version_bytes BIGINT NOT NULL DEFAULT 0;

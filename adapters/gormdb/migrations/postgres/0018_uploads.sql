-- +goose Up
-- Resumable uploads: received bytes of the content are stored, in parts. A part's blob has a
-- discarded name with the time at which the upload expires.
CREATE TABLE uploads (
    org_id     UUID NOT NULL,
    id         UUID NOT NULL,
    user_id    UUID NOT NULL,
    status     TEXT NOT NULL,
    object_id  UUID NOT NULL,
    draft      TEXT,
    mime_type  TEXT NOT NULL,
    expected   BIGINT,
    size       BIGINT NOT NULL,
    checksum   TEXT NOT NULL,
    received   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX uploads_open ON uploads (org_id, user_id) WHERE status = 'OPEN';
CREATE INDEX uploads_expiry ON uploads (expires_at);
CREATE TABLE upload_parts (
    org_id     UUID NOT NULL,
    upload_id  UUID NOT NULL,
    first_byte BIGINT NOT NULL,
    size       BIGINT NOT NULL,
    blob       TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (org_id, upload_id, first_byte),
    FOREIGN KEY (org_id, upload_id) REFERENCES uploads (org_id, id) ON DELETE CASCADE
);

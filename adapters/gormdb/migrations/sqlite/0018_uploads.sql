-- +goose Up
-- Resumable uploads: received bytes of the content are stored, in parts. A part's blob has a
-- discarded name with the time at which the upload expires.
CREATE TABLE uploads (
    org_id     TEXT NOT NULL,
    id         TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    status     TEXT NOT NULL,
    object_id  TEXT NOT NULL,
    draft      TEXT,
    mime_type  TEXT NOT NULL,
    expected   INTEGER,
    size       INTEGER NOT NULL,
    checksum   TEXT NOT NULL,
    received   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, id)
) STRICT;
CREATE INDEX uploads_open ON uploads (org_id, user_id) WHERE status = 'OPEN';
CREATE INDEX uploads_expiry ON uploads (expires_at);
CREATE TABLE upload_parts (
    org_id     TEXT NOT NULL,
    upload_id  TEXT NOT NULL,
    first_byte INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    blob       TEXT NOT NULL,
    PRIMARY KEY (org_id, upload_id, first_byte),
    FOREIGN KEY (org_id, upload_id) REFERENCES uploads (org_id, id) ON DELETE CASCADE
) STRICT;

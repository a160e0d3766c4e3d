-- +goose Up
-- Releases are the deployment's, not an organisation's, and none is removed.
CREATE TABLE releases (
    id              TEXT NOT NULL PRIMARY KEY,
    version         TEXT NOT NULL,
    version_key     TEXT NOT NULL, -- the version without its build metadata
    platform        TEXT NOT NULL,
    arch            TEXT NOT NULL,
    channel         TEXT NOT NULL,
    download_url    TEXT NOT NULL,
    sha512          TEXT, -- in hexadecimal
    sha1            TEXT, -- in hexadecimal
    file_size_bytes INTEGER,
    notes           TEXT,
    min_os_version  TEXT,
    signature       TEXT,
    is_mandatory    INTEGER NOT NULL,
    rollout         INTEGER NOT NULL, -- percent
    is_active       INTEGER NOT NULL,
    published_at    INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    revision        INTEGER NOT NULL, -- that its last change made
    UNIQUE (version_key, platform, arch, channel)
) STRICT;
CREATE INDEX releases_revision ON releases (revision);

-- How often the releases have changed. Whoever changes one holds the only row.
CREATE TABLE release_revision (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one),
    n   INTEGER NOT NULL
) STRICT;
INSERT INTO release_revision (one, n) VALUES (1, 0);

CREATE TABLE release_adoption (
    day      TEXT NOT NULL, -- as 2026-01-31
    platform TEXT NOT NULL,
    arch     TEXT NOT NULL,
    channel  TEXT NOT NULL,
    version  TEXT NOT NULL,
    checks   INTEGER NOT NULL,
    offered  INTEGER NOT NULL,
    PRIMARY KEY (day, platform, arch, channel, version)
) STRICT;

-- +goose Up
-- Releases are the deployment's, not an organisation's, and none is removed.
CREATE TABLE releases (
    id              UUID NOT NULL PRIMARY KEY,
    version         TEXT NOT NULL,
    version_key     TEXT NOT NULL, -- the version without its build metadata
    platform        TEXT NOT NULL,
    arch            TEXT NOT NULL,
    channel         TEXT NOT NULL,
    download_url    TEXT NOT NULL,
    sha512          TEXT, -- in hexadecimal
    sha1            TEXT, -- in hexadecimal
    file_size_bytes BIGINT,
    notes           TEXT,
    min_os_version  TEXT,
    signature       TEXT,
    is_mandatory    BOOLEAN NOT NULL,
    rollout         BIGINT NOT NULL, -- percent
    is_active       BOOLEAN NOT NULL,
    published_at    BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    revision        BIGINT NOT NULL, -- that its last change made
    UNIQUE (version_key, platform, arch, channel)
);
CREATE INDEX releases_revision ON releases (revision);

-- How often the releases have changed. Whoever changes one holds the only row.
CREATE TABLE release_revision (
    one BOOLEAN NOT NULL PRIMARY KEY CHECK (one),
    n   BIGINT NOT NULL
) WITH (fillfactor = 10);
INSERT INTO release_revision (one, n) VALUES (TRUE, 0);

CREATE TABLE release_adoption (
    day      TEXT COLLATE "C" NOT NULL, -- as 2026-01-31
    platform TEXT COLLATE "C" NOT NULL,
    arch     TEXT COLLATE "C" NOT NULL,
    channel  TEXT COLLATE "C" NOT NULL,
    version  TEXT COLLATE "C" NOT NULL,
    checks   BIGINT NOT NULL,
    offered  BIGINT NOT NULL,
    PRIMARY KEY (day, platform, arch, channel, version)
) WITH (fillfactor = 70);

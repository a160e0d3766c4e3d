-- +goose Up
-- How many devices checked on a day, as the registers of a HyperLogLog, which have no ids.
CREATE TABLE release_devices (
    day       TEXT COLLATE "C" NOT NULL, -- as 2026-01-31
    platform  TEXT COLLATE "C" NOT NULL,
    arch      TEXT COLLATE "C" NOT NULL,
    channel   TEXT COLLATE "C" NOT NULL,
    registers BYTEA NOT NULL,
    PRIMARY KEY (day, platform, arch, channel)
) WITH (fillfactor = 70);

-- The reports that paused a rollout by itself.
ALTER TABLE releases ADD COLUMN halt_succeeded BIGINT NOT NULL DEFAULT 0;
ALTER TABLE releases ADD COLUMN halt_failed BIGINT NOT NULL DEFAULT 0;

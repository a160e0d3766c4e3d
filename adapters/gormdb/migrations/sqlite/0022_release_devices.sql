-- +goose Up
-- How many devices checked on a day, as the registers of a HyperLogLog, which have no ids.
CREATE TABLE release_devices (
    day       TEXT NOT NULL, -- as 2026-01-31
    platform  TEXT NOT NULL,
    arch      TEXT NOT NULL,
    channel   TEXT NOT NULL,
    registers BLOB NOT NULL,
    PRIMARY KEY (day, platform, arch, channel)
) STRICT;

-- The reports that paused a rollout by itself.
ALTER TABLE releases ADD COLUMN halt_succeeded INTEGER NOT NULL DEFAULT 0;
ALTER TABLE releases ADD COLUMN halt_failed INTEGER NOT NULL DEFAULT 0;

-- +goose Up
-- A rollout is paused by itself when more reported installations fail than a limit allows.
ALTER TABLE releases ADD COLUMN failure_limit INTEGER; -- percent
ALTER TABLE releases ADD COLUMN failure_minimum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE releases ADD COLUMN guarded_by TEXT; -- the organisation whose member set the limit
ALTER TABLE releases ADD COLUMN before_succeeded INTEGER NOT NULL DEFAULT 0; -- reports that do not count
ALTER TABLE releases ADD COLUMN before_failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE releases ADD COLUMN paused_at INTEGER;

CREATE TABLE release_reports (
    release_id TEXT NOT NULL,
    hour       INTEGER NOT NULL, -- its first millisecond
    succeeded  INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    PRIMARY KEY (release_id, hour)
) STRICT;
CREATE INDEX release_reports_hour ON release_reports (hour);

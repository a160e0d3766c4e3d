-- +goose Up
-- A rollout is paused by itself when more reported installations fail than a limit allows.
ALTER TABLE releases ADD COLUMN failure_limit BIGINT; -- percent
ALTER TABLE releases ADD COLUMN failure_minimum BIGINT NOT NULL DEFAULT 0;
ALTER TABLE releases ADD COLUMN guarded_by UUID; -- the organisation whose member set the limit
ALTER TABLE releases ADD COLUMN before_succeeded BIGINT NOT NULL DEFAULT 0; -- reports that do not count
ALTER TABLE releases ADD COLUMN before_failed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE releases ADD COLUMN paused_at BIGINT;

CREATE TABLE release_reports (
    release_id UUID NOT NULL,
    hour       BIGINT NOT NULL, -- its first millisecond
    succeeded  BIGINT NOT NULL,
    failed     BIGINT NOT NULL,
    PRIMARY KEY (release_id, hour)
) WITH (fillfactor = 70);
CREATE INDEX release_reports_hour ON release_reports (hour);

-- +goose Up
-- How many requests of each organisation were counted in each minute. The counts of past minutes are
-- removed.
CREATE TABLE request_counts (
    org_id   TEXT    NOT NULL,
    minute   INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (org_id, minute)
) STRICT;
CREATE INDEX request_counts_by_minute ON request_counts (minute);

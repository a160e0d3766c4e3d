-- +goose Up
-- How many requests of each organisation were counted in each minute. The counts of past minutes are
-- removed.
CREATE TABLE request_counts (
    org_id   UUID   NOT NULL,
    minute   BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    PRIMARY KEY (org_id, minute)
);
CREATE INDEX request_counts_by_minute ON request_counts (minute);

-- +goose NO TRANSACTION
-- +goose Up
-- The uploads of an organisation to the object store that are not complete.
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS blob_names_uploads;
CREATE INDEX CONCURRENTLY blob_names_uploads ON blob_names (org_id, size) WHERE size > 0 AND NOT is_discarded;
SET lock_timeout = 250;

-- +goose Up
-- The uploads of an organisation to the object store that are not complete.
CREATE INDEX blob_names_uploads ON blob_names (org_id, size) WHERE size > 0 AND NOT is_discarded;

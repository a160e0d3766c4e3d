-- +goose Up
-- The sizes of an organisation's objects by class. They count while counted_n is n: servers that
-- do not know them change n alone.
ALTER TABLE log_heads
    ADD COLUMN shared_bytes BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN personal_bytes BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN memory_bytes BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN counted_n BIGINT NOT NULL DEFAULT 0;
-- What a client has declared that it will send to the object store.
ALTER TABLE blob_names ADD COLUMN size BIGINT NOT NULL DEFAULT 0;

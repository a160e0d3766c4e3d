-- +goose Up
-- Clients that nobody uses are forgotten. Those that are there count as used now,
-- as do those of servers that do not know the column yet.
ALTER TABLE connector_clients ADD COLUMN used_at BIGINT NOT NULL DEFAULT (EXTRACT(EPOCH FROM now()) * 1000)::BIGINT;
CREATE INDEX connector_clients_use ON connector_clients (used_at);

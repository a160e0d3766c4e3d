-- +goose Up
-- Clients that nobody uses are forgotten. Those that are there count as used now.
ALTER TABLE connector_clients ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
UPDATE connector_clients SET used_at = unixepoch() * 1000;
CREATE INDEX connector_clients_use ON connector_clients (used_at);

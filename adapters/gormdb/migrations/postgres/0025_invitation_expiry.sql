-- +goose NO TRANSACTION
-- +goose Up
-- Upkeep finds old invitations.
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS invitations_expiry;
CREATE INDEX CONCURRENTLY invitations_expiry ON invitations (expires_at);
SET lock_timeout = 250;

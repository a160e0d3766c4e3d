-- +goose Up
-- Upkeep finds old invitations.
CREATE INDEX invitations_expiry ON invitations (expires_at);

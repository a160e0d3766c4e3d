-- +goose Up
-- Upkeep finds old invitations, and revoked ones have no address.
CREATE INDEX invitations_expiry ON invitations (expires_at);
UPDATE invitations SET email = '', email_key = '' WHERE status = 'REVOKED' AND email <> '';

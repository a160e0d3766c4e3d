-- +goose Up
-- When the identity token was issued that a text or a role comes from, so that no
-- older one brings back what it replaced. Year 1 is none.
ALTER TABLE users ADD COLUMN name_issued_at BIGINT NOT NULL DEFAULT -62135596800000;
ALTER TABLE users ADD COLUMN email_issued_at BIGINT NOT NULL DEFAULT -62135596800000;
ALTER TABLE users ADD COLUMN avatar_url_issued_at BIGINT NOT NULL DEFAULT -62135596800000;
ALTER TABLE organisations ADD COLUMN slug_issued_at BIGINT NOT NULL DEFAULT -62135596800000;
ALTER TABLE memberships ADD COLUMN role_issued_at BIGINT NOT NULL DEFAULT -62135596800000;

-- +goose Up
-- How far the rates of letters are spent: of each invitation that is sent again,
-- and of all invitations of an organisation. The default is the zero time.
ALTER TABLE invitations ADD COLUMN resends_until INTEGER NOT NULL DEFAULT -62135596800000;
ALTER TABLE organisations ADD COLUMN letters_until INTEGER NOT NULL DEFAULT -62135596800000;

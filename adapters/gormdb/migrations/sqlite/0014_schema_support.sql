-- +goose Up
-- One row: the oldest version of the schema whose servers run on this one, and the oldest release of
-- those. Migrations that take away what older servers use raise it.
CREATE TABLE schema_support (
    oldest  INTEGER NOT NULL PRIMARY KEY,
    release TEXT NOT NULL
) STRICT;
INSERT INTO schema_support (oldest, release) VALUES (13, '0.1.0');

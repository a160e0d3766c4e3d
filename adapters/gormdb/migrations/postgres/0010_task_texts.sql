-- +goose Up
-- Only SQLite keeps long texts of tasks in a table of their own.
SELECT 1;

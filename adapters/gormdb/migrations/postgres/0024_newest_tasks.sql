-- +goose NO TRANSACTION
-- +goose Up
-- The newest tasks first: the ids of tasks that were made with an idempotency key have no exact time.
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS tasks_created;
CREATE INDEX CONCURRENTLY tasks_created ON tasks (org_id, created_at, id);
SET lock_timeout = 250;

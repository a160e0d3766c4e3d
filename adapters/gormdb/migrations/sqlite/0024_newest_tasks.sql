-- +goose Up
-- The newest tasks first: the ids of tasks that were made with an idempotency key have no exact time.
CREATE INDEX tasks_created ON tasks (org_id, created_at, id);

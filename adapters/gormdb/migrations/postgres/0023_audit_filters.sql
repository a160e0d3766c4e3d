-- +goose NO TRANSACTION
-- +goose Up
-- The filters of the audit log, each in the order of its list.
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS audit_actor;
CREATE INDEX CONCURRENTLY audit_actor ON audit (org_id, actor_id, at, id);
DROP INDEX CONCURRENTLY IF EXISTS audit_actorless;
CREATE INDEX CONCURRENTLY audit_actorless ON audit (org_id, at, id) WHERE actor_id IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS audit_action;
CREATE INDEX CONCURRENTLY audit_action ON audit (org_id, action, at, id);
DROP INDEX CONCURRENTLY IF EXISTS audit_kind;
CREATE INDEX CONCURRENTLY audit_kind ON audit (org_id, split_part(action, '.', 1), at, id);
DROP INDEX CONCURRENTLY IF EXISTS audit_target;
CREATE INDEX CONCURRENTLY audit_target ON audit (org_id, target, at, id);
SET lock_timeout = 250;

-- +goose Up
-- The filters of the audit log, each in the order of its list.
CREATE INDEX audit_actor ON audit (org_id, actor_id, at, id);
CREATE INDEX audit_actorless ON audit (org_id, at, id) WHERE actor_id IS NULL;
CREATE INDEX audit_action ON audit (org_id, action, at, id);
CREATE INDEX audit_kind ON audit (org_id, substr(action, 1, instr(action, '.') - 1), at, id);
CREATE INDEX audit_target ON audit (org_id, target, at, id);

-- +goose Up
ALTER TABLE subscriptions ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscriptions ADD COLUMN asked_at INTEGER NOT NULL DEFAULT -62135596800000; -- the zero time
-- Those that are billed are due three days after their period.
UPDATE subscriptions SET due_at = period_end + 259200000
WHERE due_at IS NULL AND is_external = 0 AND plan NOT IN ('NO_PLAN', 'FREE') AND provider_id <> '' AND period_end IS NOT NULL
  AND status IN ('TRIALING', 'ACTIVE', 'PAST_DUE', 'PAUSED');

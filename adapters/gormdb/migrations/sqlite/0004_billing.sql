-- +goose Up
ALTER TABLE subscriptions ADD COLUMN cancel_at_period_end INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscriptions ADD COLUMN trial_end INTEGER;
ALTER TABLE subscriptions ADD COLUMN has_payment_method INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscriptions ADD COLUMN ever_paid INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscriptions ADD COLUMN customer TEXT;
ALTER TABLE subscriptions ADD COLUMN provider_id TEXT NOT NULL DEFAULT '';
ALTER TABLE subscriptions ADD COLUMN heard_at INTEGER NOT NULL DEFAULT -62135596800000; -- the zero time
ALTER TABLE subscriptions ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscriptions ADD COLUMN checkout_key TEXT; -- null: there is no checkout
ALTER TABLE subscriptions ADD COLUMN checkout_plan TEXT;
ALTER TABLE subscriptions ADD COLUMN checkout_session TEXT;
ALTER TABLE subscriptions ADD COLUMN checkout_url TEXT;
ALTER TABLE subscriptions ADD COLUMN checkout_expires_at INTEGER;
ALTER TABLE subscriptions ADD COLUMN due_at INTEGER; -- follows from the others
UPDATE subscriptions SET ever_paid = 1 WHERE status = 'ACTIVE' AND plan IN ('STANDARD', 'PREMIUM', 'ENTERPRISE');
CREATE UNIQUE INDEX subscriptions_customer ON subscriptions (customer) WHERE customer IS NOT NULL;
CREATE INDEX subscriptions_due ON subscriptions (due_at, org_id) WHERE due_at IS NOT NULL;

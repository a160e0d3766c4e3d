-- +goose Up
ALTER TABLE subscriptions
    ADD COLUMN cancel_at_period_end BOOLEAN NOT NULL DEFAULT false,
    ADD COLUMN trial_end            BIGINT,
    ADD COLUMN has_payment_method   BOOLEAN NOT NULL DEFAULT false,
    ADD COLUMN ever_paid            BOOLEAN NOT NULL DEFAULT false,
    ADD COLUMN customer             TEXT,
    ADD COLUMN provider_id          TEXT NOT NULL DEFAULT '',
    ADD COLUMN heard_at             BIGINT NOT NULL DEFAULT -62135596800000, -- the zero time
    ADD COLUMN revision             BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN checkout_key         TEXT, -- null: there is no checkout
    ADD COLUMN checkout_plan        TEXT,
    ADD COLUMN checkout_session     TEXT,
    ADD COLUMN checkout_url         TEXT,
    ADD COLUMN checkout_expires_at  BIGINT,
    ADD COLUMN due_at               BIGINT; -- follows from the others
UPDATE subscriptions SET ever_paid = true WHERE status = 'ACTIVE' AND plan IN ('STANDARD', 'PREMIUM', 'ENTERPRISE');
CREATE UNIQUE INDEX subscriptions_customer ON subscriptions (customer) WHERE customer IS NOT NULL;
CREATE INDEX subscriptions_due ON subscriptions (due_at, org_id) WHERE due_at IS NOT NULL;

-- +goose Up
-- Sign-ins of devices without a browser, by digests of their codes. The organisation and the user are
-- known once somebody has decided.
CREATE TABLE device_grants (
    code       TEXT NOT NULL PRIMARY KEY,
    org_id     UUID,
    user_code  TEXT NOT NULL,
    name       TEXT NOT NULL,
    address    TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    status     TEXT NOT NULL,
    user_id    UUID,
    poll_every BIGINT NOT NULL, -- milliseconds
    polled_at  BIGINT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX device_grants_user_code ON device_grants (user_code);
CREATE INDEX device_grants_org ON device_grants (org_id);
CREATE INDEX device_grants_expiry ON device_grants (expires_at);

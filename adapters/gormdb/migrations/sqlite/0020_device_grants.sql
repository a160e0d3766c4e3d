-- +goose Up
-- Sign-ins of devices without a browser, by digests of their codes. The organisation and the user are
-- known once somebody has decided.
CREATE TABLE device_grants (
    code       TEXT NOT NULL PRIMARY KEY,
    org_id     TEXT,
    user_code  TEXT NOT NULL,
    name       TEXT NOT NULL,
    address    TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    status     TEXT NOT NULL,
    user_id    TEXT,
    poll_every INTEGER NOT NULL, -- milliseconds
    polled_at  INTEGER,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX device_grants_user_code ON device_grants (user_code);
CREATE INDEX device_grants_org ON device_grants (org_id);
CREATE INDEX device_grants_expiry ON device_grants (expires_at);

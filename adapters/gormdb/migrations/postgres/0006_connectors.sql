-- +goose Up
-- Whoever works on an instance puts off when it is due, and so does everybody
-- who looks at it.
CREATE TABLE connectors (
    org_id       UUID NOT NULL REFERENCES organisations (id),
    id           UUID NOT NULL,
    provider     TEXT NOT NULL,
    label        TEXT NOT NULL,
    name         TEXT,
    config       TEXT NOT NULL, -- JSON as it came
    url          TEXT NOT NULL,
    hosting      TEXT NOT NULL,
    transport    TEXT NOT NULL,
    status       TEXT NOT NULL,
    created_by   UUID NOT NULL,
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT,
    last_error   TEXT NOT NULL,
    tools        TEXT, -- a JSON array of {"name", "description"}
    failures     BIGINT NOT NULL,
    version      BIGINT NOT NULL, -- of the credentials
    expires_at   BIGINT,
    renew_at     BIGINT,
    due_at       BIGINT,
    PRIMARY KEY (org_id, id)
) WITH (fillfactor = 70);
CREATE INDEX connectors_order ON connectors (org_id, created_at, id);
CREATE INDEX connectors_due ON connectors (due_at, org_id, id) WHERE due_at IS NOT NULL;

CREATE TABLE connector_credentials (
    org_id       UUID NOT NULL,
    connector_id UUID NOT NULL,
    version      BIGINT NOT NULL,
    entries      BYTEA NOT NULL, -- sealed
    renewal      BYTEA, -- sealed
    PRIMARY KEY (org_id, connector_id),
    FOREIGN KEY (org_id, connector_id) REFERENCES connectors (org_id, id) ON DELETE CASCADE
);

-- A browser comes with nothing but the state, and so it alone is the key.
CREATE TABLE connector_flows (
    state        TEXT NOT NULL PRIMARY KEY, -- its SHA-256
    org_id       UUID NOT NULL,
    connector_id UUID NOT NULL,
    user_id      UUID NOT NULL,
    status       TEXT NOT NULL,
    server       TEXT NOT NULL, -- JSON
    client       TEXT NOT NULL,
    redirect     TEXT NOT NULL,
    verifier     BYTEA NOT NULL, -- sealed
    browser      TEXT NOT NULL,
    error        TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    FOREIGN KEY (org_id, connector_id) REFERENCES connectors (org_id, id) ON DELETE CASCADE
);
CREATE INDEX connector_flows_connector ON connector_flows (org_id, connector_id);
CREATE INDEX connector_flows_expiry ON connector_flows (expires_at);

-- The clients are the deployment's, not an organisation's.
CREATE TABLE connector_clients (
    issuer     TEXT NOT NULL,
    redirect   TEXT NOT NULL,
    client_id  TEXT NOT NULL,
    secret     BYTEA, -- sealed
    method     TEXT NOT NULL,
    expires_at BIGINT, -- of the secret
    PRIMARY KEY (issuer, redirect)
);

-- What is to be taken back outlives the instance that had it.
CREATE TABLE connector_revocations (
    org_id   UUID NOT NULL REFERENCES organisations (id),
    id       UUID NOT NULL, -- the instance's
    renewal  BYTEA NOT NULL, -- sealed
    attempts BIGINT NOT NULL,
    due_at   BIGINT NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX connector_revocations_due ON connector_revocations (due_at, org_id, id);

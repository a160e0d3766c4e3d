-- +goose Up
-- Whoever works on an instance puts off when it is due, and so does everybody
-- who looks at it.
CREATE TABLE connectors (
    org_id       TEXT NOT NULL REFERENCES organisations (id),
    id           TEXT NOT NULL,
    provider     TEXT NOT NULL,
    label        TEXT NOT NULL,
    name         TEXT,
    config       TEXT NOT NULL, -- JSON as it came
    url          TEXT NOT NULL,
    hosting      TEXT NOT NULL,
    transport    TEXT NOT NULL,
    status       TEXT NOT NULL,
    created_by   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    last_error   TEXT NOT NULL,
    tools        TEXT, -- a JSON array of {"name", "description"}
    failures     INTEGER NOT NULL,
    version      INTEGER NOT NULL, -- of the credentials
    expires_at   INTEGER,
    renew_at     INTEGER,
    due_at       INTEGER,
    PRIMARY KEY (org_id, id)
) STRICT;
CREATE INDEX connectors_order ON connectors (org_id, created_at, id);
CREATE INDEX connectors_due ON connectors (due_at, org_id, id) WHERE due_at IS NOT NULL;

CREATE TABLE connector_credentials (
    org_id       TEXT NOT NULL,
    connector_id TEXT NOT NULL,
    version      INTEGER NOT NULL,
    entries      BLOB NOT NULL, -- sealed
    renewal      BLOB, -- sealed
    PRIMARY KEY (org_id, connector_id),
    FOREIGN KEY (org_id, connector_id) REFERENCES connectors (org_id, id) ON DELETE CASCADE
) STRICT;

-- A browser comes with nothing but the state, and so it alone is the key.
CREATE TABLE connector_flows (
    state        TEXT NOT NULL PRIMARY KEY, -- its SHA-256
    org_id       TEXT NOT NULL,
    connector_id TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    status       TEXT NOT NULL,
    server       TEXT NOT NULL, -- JSON
    client       TEXT NOT NULL,
    redirect     TEXT NOT NULL,
    verifier     BLOB NOT NULL, -- sealed
    browser      TEXT NOT NULL,
    error        TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    FOREIGN KEY (org_id, connector_id) REFERENCES connectors (org_id, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX connector_flows_connector ON connector_flows (org_id, connector_id);
CREATE INDEX connector_flows_expiry ON connector_flows (expires_at);

-- The clients are the deployment's, not an organisation's.
CREATE TABLE connector_clients (
    issuer     TEXT NOT NULL,
    redirect   TEXT NOT NULL,
    client_id  TEXT NOT NULL,
    secret     BLOB, -- sealed
    method     TEXT NOT NULL,
    expires_at INTEGER, -- of the secret
    PRIMARY KEY (issuer, redirect)
) STRICT;

-- What is to be taken back outlives the instance that had it.
CREATE TABLE connector_revocations (
    org_id   TEXT NOT NULL REFERENCES organisations (id),
    id       TEXT NOT NULL, -- the instance's
    renewal  BLOB NOT NULL, -- sealed
    attempts INTEGER NOT NULL,
    due_at   INTEGER NOT NULL,
    PRIMARY KEY (org_id, id)
) STRICT;
CREATE INDEX connector_revocations_due ON connector_revocations (due_at, org_id, id);

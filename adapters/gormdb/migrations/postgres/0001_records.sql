-- +goose Up
CREATE TABLE users (
    id           UUID NOT NULL PRIMARY KEY,
    provider_id  TEXT NOT NULL UNIQUE,
    name         TEXT NOT NULL,
    email        TEXT NOT NULL,
    email_key    TEXT NOT NULL, -- the address as it is compared
    avatar_url   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    is_full      BOOLEAN NOT NULL,
    seen_at      BIGINT NOT NULL,
    seen_rank    BIGINT NOT NULL,
    seen_message TEXT NOT NULL,
    deleted_at   BIGINT
);
CREATE INDEX users_email ON users (email_key);

-- The epoch moves with every change of who is in the organisation or who sees
-- what in it; its row is what such changes lock.
CREATE TABLE organisations (
    id                      UUID NOT NULL PRIMARY KEY,
    provider_id             TEXT NOT NULL UNIQUE,
    name                    TEXT NOT NULL,
    slug                    TEXT NOT NULL,
    created_at              BIGINT NOT NULL,
    updated_at              BIGINT NOT NULL,
    is_full                 BOOLEAN NOT NULL,
    seen_at                 BIGINT NOT NULL,
    seen_rank               BIGINT NOT NULL,
    seen_message            TEXT NOT NULL,
    created_by              TEXT NOT NULL,
    created_by_seen_at      BIGINT NOT NULL,
    created_by_seen_rank    BIGINT NOT NULL,
    created_by_seen_message TEXT NOT NULL,
    closed_at               BIGINT,
    erased_at               BIGINT,
    epoch                   BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX organisations_closed ON organisations (closed_at) WHERE closed_at IS NOT NULL AND erased_at IS NULL;

CREATE TABLE memberships (
    org_id               UUID NOT NULL REFERENCES organisations (id),
    user_id              UUID NOT NULL REFERENCES users (id),
    role                 TEXT NOT NULL,
    onboarding_completed BOOLEAN NOT NULL,
    joined_at            BIGINT NOT NULL,
    used_at              BIGINT NOT NULL,
    provider_role        TEXT NOT NULL,
    role_set_here        BOOLEAN NOT NULL,
    seen_at              BIGINT NOT NULL,
    seen_rank            BIGINT NOT NULL,
    seen_message         TEXT NOT NULL,
    removed_at           BIGINT,
    PRIMARY KEY (org_id, user_id)
);
CREATE INDEX memberships_user ON memberships (user_id);
CREATE INDEX memberships_active ON memberships (org_id, joined_at, user_id) WHERE removed_at IS NULL;

CREATE TABLE invitations (
    org_id       UUID NOT NULL REFERENCES organisations (id),
    id           UUID NOT NULL,
    email        TEXT NOT NULL,
    email_key    TEXT NOT NULL, -- the address as it is compared
    role         TEXT NOT NULL,
    status       TEXT NOT NULL,
    token_hash   TEXT,
    expires_at   BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    accepted_at  BIGINT,
    invited_by   UUID,
    provider_id  TEXT,
    seen_at      BIGINT NOT NULL,
    seen_rank    BIGINT NOT NULL,
    seen_message TEXT NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX invitations_provider ON invitations (org_id, provider_id) WHERE provider_id IS NOT NULL;
CREATE UNIQUE INDEX invitations_token ON invitations (token_hash) WHERE token_hash IS NOT NULL;
CREATE INDEX invitations_pending ON invitations (org_id, created_at, id) WHERE status = 'PENDING';
CREATE INDEX invitations_pending_email ON invitations (org_id, email_key, created_at, id) WHERE status = 'PENDING';

CREATE TABLE subscriptions (
    org_id          UUID NOT NULL PRIMARY KEY REFERENCES organisations (id),
    plan            TEXT NOT NULL,
    status          TEXT NOT NULL,
    purchased_seats BIGINT,
    period_start    BIGINT,
    period_end      BIGINT,
    is_external     BOOLEAN NOT NULL,
    updated_at      BIGINT NOT NULL
);

CREATE TABLE teams (
    org_id      UUID NOT NULL REFERENCES organisations (id),
    id          UUID NOT NULL,
    name        TEXT NOT NULL,
    description TEXT,
    kind        TEXT NOT NULL,
    created_by  UUID NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX teams_order ON teams (org_id, created_at, id);
CREATE UNIQUE INDEX teams_shared ON teams (org_id) WHERE kind = 'SHARED';
CREATE UNIQUE INDEX teams_personal ON teams (org_id, created_by) WHERE kind = 'PERSONAL';

CREATE TABLE team_members (
    org_id    UUID NOT NULL,
    team_id   UUID NOT NULL,
    user_id   UUID NOT NULL REFERENCES users (id),
    joined_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, team_id, user_id),
    FOREIGN KEY (org_id, team_id) REFERENCES teams (org_id, id) ON DELETE CASCADE
);
CREATE INDEX team_members_order ON team_members (org_id, team_id, joined_at, user_id);
CREATE INDEX team_members_user ON team_members (org_id, user_id, team_id);

CREATE TABLE workspaces (
    org_id      UUID NOT NULL,
    id          UUID NOT NULL,
    team_id     UUID NOT NULL,
    name        TEXT NOT NULL,
    description TEXT,
    created_by  UUID NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, team_id) REFERENCES teams (org_id, id)
);
CREATE INDEX workspaces_order ON workspaces (org_id, created_at, id);
CREATE INDEX workspaces_team ON workspaces (org_id, team_id);

CREATE TABLE workspace_orders (
    org_id        UUID NOT NULL,
    user_id       UUID NOT NULL,
    workspace_ids TEXT NOT NULL, -- a JSON array, first to last
    PRIMARY KEY (org_id, user_id)
);

-- Each index ends in the order of lists, so that a page of any of them is read
-- from where it begins to where it ends.
CREATE TABLE tasks (
    org_id       UUID NOT NULL,
    id           UUID NOT NULL,
    title        TEXT NOT NULL,
    description  TEXT,
    status       TEXT NOT NULL,
    priority     TEXT NOT NULL,
    assignee_id  UUID,
    workspace_id UUID,
    due_text     TEXT,  -- as it came: a day or an instant
    due_start    BIGINT, -- the first and the last millisecond of it
    due_end      BIGINT,
    tags         TEXT,  -- a JSON array
    metadata     TEXT,  -- JSON as it came, byte for byte
    sort_order   BIGINT NOT NULL,
    created_by   UUID NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    completed_at BIGINT,
    version      BIGINT NOT NULL,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, workspace_id) REFERENCES workspaces (org_id, id) ON DELETE CASCADE
);
CREATE INDEX tasks_order ON tasks (org_id, sort_order, created_at, id);
CREATE INDEX tasks_status ON tasks (org_id, status, sort_order, created_at, id);
CREATE INDEX tasks_priority ON tasks (org_id, priority, sort_order, created_at, id);
CREATE INDEX tasks_assignee ON tasks (org_id, assignee_id, sort_order, created_at, id);
CREATE INDEX tasks_workspace ON tasks (org_id, workspace_id, sort_order, created_at, id);
CREATE INDEX tasks_due_start ON tasks (org_id, due_start) WHERE due_start IS NOT NULL;
CREATE INDEX tasks_due_end ON tasks (org_id, due_end) WHERE due_end IS NOT NULL;

-- An index of tasks.tags in the order of lists, which triggers keep: nothing
-- else writes it. It has neither a foreign key nor an index by task, because
-- the task that changes or goes says what its rows are. A task's tags do not
-- repeat; ON CONFLICT here would be a large part of what adding a task costs.
CREATE TABLE task_tags (
    org_id     UUID NOT NULL,
    tag        TEXT NOT NULL,
    sort_order BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    task_id    UUID NOT NULL,
    PRIMARY KEY (org_id, tag, sort_order, created_at, task_id)
);

-- +goose StatementBegin
CREATE FUNCTION index_task_tags() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.tags IS NOT NULL THEN
        DELETE FROM task_tags
        WHERE org_id = OLD.org_id AND tag = ANY (ARRAY(SELECT json_array_elements_text(OLD.tags::json)))
            AND sort_order = OLD.sort_order AND created_at = OLD.created_at AND task_id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.tags IS NOT NULL THEN
        INSERT INTO task_tags (org_id, tag, sort_order, created_at, task_id)
        SELECT NEW.org_id, tag, NEW.sort_order, NEW.created_at, NEW.id
        FROM json_array_elements_text(NEW.tags::json) AS tag;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER tasks_added AFTER INSERT ON tasks
    FOR EACH ROW WHEN (NEW.tags IS NOT NULL) EXECUTE FUNCTION index_task_tags();
CREATE TRIGGER tasks_changed AFTER UPDATE ON tasks
    FOR EACH ROW WHEN ((OLD.tags, OLD.sort_order, OLD.created_at) IS DISTINCT FROM (NEW.tags, NEW.sort_order, NEW.created_at)
        AND (OLD.tags IS NOT NULL OR NEW.tags IS NOT NULL)) EXECUTE FUNCTION index_task_tags();
CREATE TRIGGER tasks_removed AFTER DELETE ON tasks
    FOR EACH ROW WHEN (OLD.tags IS NOT NULL) EXECUTE FUNCTION index_task_tags();

CREATE TABLE task_history (
    org_id  UUID NOT NULL,
    id      UUID NOT NULL,
    task_id UUID NOT NULL,
    at      BIGINT NOT NULL,
    by_user UUID NOT NULL,
    reason  TEXT NOT NULL,
    fields  TEXT NOT NULL, -- a JSON array of {"field", "from", "to"}
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, task_id) REFERENCES tasks (org_id, id) ON DELETE CASCADE
);
CREATE INDEX task_history_order ON task_history (org_id, task_id, at, id);

CREATE TABLE inbox (
    source   TEXT NOT NULL,
    message  TEXT NOT NULL,
    noted_at BIGINT NOT NULL,
    PRIMARY KEY (source, message)
);
CREATE INDEX inbox_noted ON inbox (noted_at);

-- Entries without an organisation concern the deployment.
CREATE TABLE audit (
    id          UUID NOT NULL PRIMARY KEY,
    org_id      UUID REFERENCES organisations (id),
    at          BIGINT NOT NULL,
    actor_id    UUID,
    is_operator BOOLEAN NOT NULL,
    action      TEXT NOT NULL,
    target      TEXT NOT NULL,
    detail      TEXT NOT NULL,
    address     TEXT NOT NULL,
    request     TEXT NOT NULL
);
CREATE INDEX audit_order ON audit (org_id, at, id);

CREATE TABLE replays (
    key         TEXT NOT NULL PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    claim       TEXT NOT NULL,
    is_done     BOOLEAN NOT NULL,
    answer      BYTEA,
    expires_at  BIGINT NOT NULL
);
CREATE INDEX replays_expiry ON replays (expires_at);

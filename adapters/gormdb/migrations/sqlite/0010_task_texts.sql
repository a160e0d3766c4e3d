-- +goose Up
-- Long texts lie beside their tasks, whose metadata is then an empty text: SQLite
-- reads and writes a row whole, also where only its place among the others changes.
-- Postgres does so by itself.
CREATE TABLE task_texts (
    org_id      TEXT NOT NULL,
    task_id     TEXT NOT NULL,
    description TEXT,
    metadata    TEXT,
    PRIMARY KEY (org_id, task_id),
    FOREIGN KEY (org_id, task_id) REFERENCES tasks (org_id, id) ON DELETE CASCADE
) STRICT;
INSERT INTO task_texts (org_id, task_id, description, metadata)
SELECT org_id, id, description, metadata FROM tasks
WHERE octet_length(COALESCE(description, '')) + octet_length(COALESCE(metadata, '')) > 1024;
UPDATE tasks SET description = NULL, metadata = ''
WHERE octet_length(COALESCE(description, '')) + octet_length(COALESCE(metadata, '')) > 1024;

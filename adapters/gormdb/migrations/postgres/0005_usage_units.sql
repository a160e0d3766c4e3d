-- +goose Up
-- What is left of the entries is read in the order of their times, and from this
-- index that of one user.
DROP INDEX usage_entries_user;
CREATE INDEX usage_entries_user ON usage_entries (org_id, day, user_id, at);

-- The sums of users and of models are of units of several lengths: the longest
-- for the middle of a period, the shortest for where it begins and ends. They are
-- made from the ledger anew.
DROP TABLE usage_users;
CREATE TABLE usage_users (
    org_id   UUID NOT NULL,
    unit     BIGINT NOT NULL, -- its length in milliseconds: a week from Monday on, a day, a quarter of one
    since    BIGINT NOT NULL, -- its first millisecond
    user_id  UUID NOT NULL,
    input    BIGINT NOT NULL,
    output   BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    PRIMARY KEY (org_id, unit, since, user_id)
) WITH (fillfactor = 70);

-- A sum that all members share is kept in several rows, so that requests that
-- end at the same time do not wait for each other's commit.
DROP TABLE usage_models;
CREATE TABLE usage_models (
    org_id   UUID NOT NULL,
    unit     BIGINT NOT NULL, -- its length in milliseconds: a day, an hour
    since    BIGINT NOT NULL, -- its first millisecond
    model    TEXT NOT NULL,
    lane     TEXT NOT NULL, -- the last digit of the user's id
    input    BIGINT NOT NULL,
    output   BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    PRIMARY KEY (org_id, unit, since, model, lane)
) WITH (fillfactor = 50);

INSERT INTO usage_users (org_id, unit, since, user_id, input, output, requests)
    SELECT org_id, 21600000, at - at % 21600000, user_id, SUM(input), SUM(output), COUNT(*) FROM usage_entries GROUP BY 1, 3, 4;
INSERT INTO usage_users (org_id, unit, since, user_id, input, output, requests)
    SELECT org_id, 86400000, since - since % 86400000, user_id, SUM(input), SUM(output), SUM(requests) FROM usage_users WHERE unit = 21600000 GROUP BY 1, 3, 4;
INSERT INTO usage_users (org_id, unit, since, user_id, input, output, requests)
    SELECT org_id, 604800000, since - (since + 259200000) % 604800000, user_id, SUM(input), SUM(output), SUM(requests) FROM usage_users WHERE unit = 86400000 GROUP BY 1, 3, 4;
INSERT INTO usage_models (org_id, unit, since, model, lane, input, output, requests)
    SELECT org_id, 3600000, at - at % 3600000, model, right(user_id::text, 1), SUM(input), SUM(output), COUNT(*) FROM usage_entries GROUP BY 1, 3, 4, 5;
INSERT INTO usage_models (org_id, unit, since, model, lane, input, output, requests)
    SELECT org_id, 86400000, since - since % 86400000, model, lane, SUM(input), SUM(output), SUM(requests) FROM usage_models WHERE unit = 3600000 GROUP BY 1, 3, 4, 5;

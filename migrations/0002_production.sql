-- Several servers on one database: fair claims, limits, announced ends, followed logs, webhooks.

-- A tenant's next claim stands at its pass; each claim moves it on by a stride that is shorter the more it weighs.
-- `served_pass` is where its last claim stood: the furthest of all tenants is where the queue stands now.
ALTER TABLE tenants ADD COLUMN weight BIGINT NOT NULL DEFAULT 1;
ALTER TABLE tenants ADD COLUMN pass BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN served_pass BIGINT NOT NULL DEFAULT 0;
CREATE INDEX tenants_by_served_pass ON tenants (served_pass);

-- Limits that are absent for most tenants, and the token bucket of `rate_per_minute`.
ALTER TABLE tenants ADD COLUMN max_queued BIGINT;
ALTER TABLE tenants ADD COLUMN rate_per_minute BIGINT;
ALTER TABLE tenants ADD COLUMN tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN tokens_at BIGINT NOT NULL DEFAULT 0;

-- The skill promises that running it twice does no harm.
ALTER TABLE executions ADD COLUMN idempotent BOOLEAN NOT NULL DEFAULT FALSE;
-- Somebody in another process waits for the end: it is announced.
ALTER TABLE executions ADD COLUMN awaited BOOLEAN NOT NULL DEFAULT FALSE;
-- Somebody follows the log: it is written down while it runs.
ALTER TABLE executions ADD COLUMN watched BOOLEAN NOT NULL DEFAULT FALSE;
-- Whom to tell of the end. Kept when the request is cleared.
ALTER TABLE executions ADD COLUMN webhook TEXT;
CREATE INDEX executions_ended ON executions (finished_at, id) WHERE finished_at IS NOT NULL;

-- Pieces of the log of an execution that somebody follows, by where they end in the whole text.
CREATE TABLE log_segments (
    execution_id TEXT NOT NULL REFERENCES executions (id),
    attempt      BIGINT NOT NULL,
    ends_at      BIGINT NOT NULL,
    stream       TEXT NOT NULL,
    written_at   BIGINT NOT NULL,
    text         TEXT NOT NULL,
    PRIMARY KEY (execution_id, attempt, ends_at)
);

-- One call for each execution that has a webhook, written in the transaction that ends it.
CREATE TABLE webhooks (
    execution_id TEXT PRIMARY KEY REFERENCES executions (id),
    tenant       TEXT NOT NULL REFERENCES tenants (id),
    url          TEXT NOT NULL,
    state        TEXT NOT NULL,
    attempts     BIGINT NOT NULL,
    next_at      BIGINT NOT NULL,
    last_error   TEXT,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL
);
CREATE INDEX webhooks_due ON webhooks (next_at) WHERE state = 'pending';

-- Archives that may belong to no skill: noted before they are stored, and when their last skill is gone.
CREATE TABLE loose_archives (
    tenant         TEXT NOT NULL REFERENCES tenants (id),
    digest         TEXT NOT NULL,
    noted_at       BIGINT NOT NULL,
    removing_until BIGINT NOT NULL,
    PRIMARY KEY (tenant, digest)
);

-- What all servers on this database share: single values, and duties that one of them holds for a while.
CREATE TABLE settings (
    name       TEXT PRIMARY KEY,
    value      TEXT NOT NULL,
    held_until BIGINT NOT NULL
);

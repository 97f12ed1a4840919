-- One text for Postgres and SQLite: ids are TEXT (UUIDs in lower case), times are
-- BIGINT microseconds since 1970, documents are TEXT holding JSON, flags are BOOLEAN.
-- A migration that has been released is never edited; a change is a new file.

CREATE TABLE tenants (
    id             TEXT PRIMARY KEY,
    versions       TEXT NOT NULL,
    max_concurrent BIGINT,
    -- When a queued execution of this tenant was last claimed: who waited longest goes first.
    served_at      BIGINT NOT NULL,
    created_at     BIGINT NOT NULL
);

CREATE TABLE keys (
    id         TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL REFERENCES tenants (id),
    name       TEXT NOT NULL,
    prefix     TEXT NOT NULL,
    hash       TEXT NOT NULL,
    scopes     TEXT NOT NULL,
    service    BOOLEAN NOT NULL,
    skills     TEXT,
    expires_at BIGINT,
    revoked_at BIGINT,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX keys_by_hash ON keys (hash);
CREATE INDEX keys_by_tenant ON keys (tenant, created_at, id);

CREATE TABLE skills (
    tenant      TEXT NOT NULL REFERENCES tenants (id),
    name        TEXT NOT NULL,
    version     TEXT NOT NULL,
    digest      TEXT NOT NULL,
    description TEXT NOT NULL,
    lang        TEXT,
    mode        TEXT NOT NULL,
    status      TEXT NOT NULL,
    entrypoint  TEXT,
    size_bytes  BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    scripts     TEXT NOT NULL,
    manifest    TEXT NOT NULL,
    PRIMARY KEY (tenant, name, version)
);
CREATE INDEX skills_by_age ON skills (tenant, name, updated_at, version);
CREATE INDEX skills_by_digest ON skills (tenant, digest);

-- The long documents stand last: SQLite reads a row from its front, so a listing never touches them.
CREATE TABLE executions (
    id               TEXT PRIMARY KEY,
    tenant           TEXT NOT NULL REFERENCES tenants (id),
    key_id           TEXT,
    skill_name       TEXT NOT NULL,
    skill_version    TEXT NOT NULL,
    digest           TEXT NOT NULL,
    status           TEXT NOT NULL,
    attempt          BIGINT NOT NULL,
    started          BOOLEAN NOT NULL DEFAULT FALSE,
    cancel_requested BOOLEAN NOT NULL DEFAULT FALSE,
    owner            TEXT,
    token            BIGINT NOT NULL,
    lease_until      BIGINT,
    idempotency_key  TEXT,
    body_sha256      TEXT,
    created_at       BIGINT NOT NULL,
    started_at       BIGINT,
    finished_at      BIGINT,
    duration_ms      BIGINT NOT NULL DEFAULT 0,
    outcome          TEXT,
    exit_code        BIGINT,
    has_archive      BOOLEAN NOT NULL DEFAULT FALSE,
    error            TEXT,
    input            TEXT,
    request          TEXT NOT NULL,
    output           TEXT,
    logs             TEXT NOT NULL DEFAULT '',
    detail           TEXT
);
CREATE INDEX executions_by_age ON executions (tenant, created_at, id);
CREATE UNIQUE INDEX executions_by_idempotency ON executions (tenant, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
-- The next two hold only what waits or runs now, however long the history is.
CREATE INDEX executions_queued ON executions (tenant, created_at, id) WHERE status = 'queued';
CREATE INDEX executions_running ON executions (tenant, lease_until) WHERE status = 'running';

CREATE TABLE files (
    id           TEXT PRIMARY KEY,
    tenant       TEXT NOT NULL REFERENCES tenants (id),
    execution_id TEXT REFERENCES executions (id),
    session_id   TEXT,
    name         TEXT NOT NULL,
    content_type TEXT NOT NULL,
    size_bytes   BIGINT NOT NULL,
    sha256       TEXT NOT NULL,
    blob_key     TEXT NOT NULL,
    version      BIGINT NOT NULL,
    parent_id    TEXT REFERENCES files (id),
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL
);
-- An execution has one artifact of a name; later versions of it point at it as their parent.
CREATE UNIQUE INDEX files_by_execution ON files (execution_id, name)
    WHERE execution_id IS NOT NULL AND parent_id IS NULL;
CREATE INDEX files_by_age ON files (tenant, created_at, id);

-- No reference to tenants: the trail outlives what it tells of.
CREATE TABLE audit (
    id         TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    actor      TEXT,
    action     TEXT NOT NULL,
    object     TEXT NOT NULL,
    detail     TEXT NOT NULL,
    request_id TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX audit_by_age ON audit (tenant, created_at, id);

-- Signatures of skills, whom a tenant trusts to make them, and receipts of executions.

-- What unsigned or wrongly signed skills come to: off, warn or require.
ALTER TABLE tenants ADD COLUMN signatures TEXT NOT NULL DEFAULT 'off';

-- A signature is for one name, version and content. It outlives the skill's row for as long as an accepted execution
-- needs the archive.
CREATE TABLE signatures (
    tenant    TEXT NOT NULL REFERENCES tenants (id),
    name      TEXT NOT NULL,
    version   TEXT NOT NULL,
    digest    TEXT NOT NULL,
    signature TEXT NOT NULL,
    PRIMARY KEY (tenant, name, version, digest)
);
CREATE INDEX signatures_by_digest ON signatures (tenant, digest);

-- A revoked key keeps its row, so that it is never trusted again.
CREATE TABLE trusted_keys (
    tenant     TEXT NOT NULL REFERENCES tenants (id),
    key_id     TEXT NOT NULL,
    public_key TEXT NOT NULL,
    comment    TEXT NOT NULL,
    added_at   BIGINT NOT NULL,
    revoked_at BIGINT,
    PRIMARY KEY (tenant, key_id)
);

-- Content that must not run, whatever the policy.
CREATE TABLE revoked_digests (
    tenant     TEXT NOT NULL REFERENCES tenants (id),
    digest     TEXT NOT NULL,
    reason     TEXT NOT NULL,
    revoked_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, digest)
);

-- The highest version of each skill that was uploaded with a trusted signature: `latest` never goes back behind it.
CREATE TABLE newest_signed (
    tenant      TEXT NOT NULL REFERENCES tenants (id),
    name        TEXT NOT NULL,
    version     TEXT NOT NULL,
    accepted_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- What the server signs about an execution when it is recorded, word for word.
ALTER TABLE executions ADD COLUMN receipt TEXT;

-- The audit log as a chain: within a tenant each entry has a number and a hash over itself and the entry before it.
-- Entries of earlier versions have neither; they come before the chain.
ALTER TABLE audit ADD COLUMN seq BIGINT;
ALTER TABLE audit ADD COLUMN hash TEXT;
CREATE UNIQUE INDEX audit_by_seq ON audit (tenant, seq) WHERE seq IS NOT NULL;

-- The last entry of each chain. Whoever appends holds this row until the transaction ends.
CREATE TABLE audit_heads (
    tenant    TEXT PRIMARY KEY,
    seq       BIGINT NOT NULL,
    hash      TEXT NOT NULL,
    -- How many entries come before the chain.
    unchained BIGINT NOT NULL,
    -- The head as the server signed it; absent if the head before it was not authentic.
    signed    TEXT
);

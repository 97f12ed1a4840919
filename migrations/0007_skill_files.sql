-- Where each file of a stored skill lies in its archive, so that one file is read without the others. Content published
-- before this step has no rows; they are written when one of its files is read for the first time.
CREATE TABLE skill_files (
    tenant     TEXT NOT NULL REFERENCES tenants (id),
    digest     TEXT NOT NULL,
    path       TEXT NOT NULL,
    -- Of its first byte in the archive.
    position   BIGINT NOT NULL,
    size_bytes BIGINT NOT NULL,
    executable BOOLEAN NOT NULL,
    -- Whether it is valid UTF-8.
    is_text    BOOLEAN NOT NULL,
    sha256     TEXT NOT NULL,
    PRIMARY KEY (tenant, digest, path)
);

-- What callers need of a manifest, beside it, so that lists and runs do not read the whole. It holds for the content that
-- `described` names; an older program that replaces the content does not know these columns.
ALTER TABLE skills ADD COLUMN described TEXT;
ALTER TABLE skills ADD COLUMN idempotent BOOLEAN;
ALTER TABLE skills ADD COLUMN input_schema TEXT;

-- Files that people upload, beside those that executions leave.

-- How many bytes a tenant may keep in files that were uploaded; absent for most.
ALTER TABLE tenants ADD COLUMN max_file_bytes BIGINT;

-- A file's later versions, each number once.
CREATE UNIQUE INDEX files_by_version ON files (parent_id, version) WHERE parent_id IS NOT NULL;
-- What counts against the tenant: everything but what executions left.
CREATE INDEX files_uploaded ON files (tenant, size_bytes) WHERE execution_id IS NULL OR parent_id IS NOT NULL;

-- One of an execution's artifacts was deleted, and with it the archive of all of them.
ALTER TABLE executions ADD COLUMN archive_removed BOOLEAN NOT NULL DEFAULT FALSE;

-- Blobs that may belong to no file: noted before they are stored, and when their file is gone.
CREATE TABLE loose_blobs (
    blob_key TEXT PRIMARY KEY,
    tenant   TEXT NOT NULL REFERENCES tenants (id),
    noted_at BIGINT NOT NULL
);
CREATE INDEX loose_blobs_by_age ON loose_blobs (noted_at);

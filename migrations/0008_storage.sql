-- How many bytes a tenant stores, and may store.
--
-- The count is kept by triggers, in the transaction that adds, changes or removes a row, so that servers of every version
-- count alike. Their text differs between the databases: 0008_storage.sqlite.sql and 0008_storage.postgres.sql follow this.

-- Absent: the server's default holds.
ALTER TABLE tenants ADD COLUMN max_stored_bytes BIGINT;
ALTER TABLE tenants ADD COLUMN stored_bytes BIGINT NOT NULL DEFAULT 0;

-- The archive of all artifacts of an execution, their second copy. Absent until it is measured: a server that does not know
-- this column leaves it out.
ALTER TABLE executions ADD COLUMN archive_bytes BIGINT;
CREATE INDEX executions_unmeasured ON executions (id)
    WHERE has_archive AND NOT archive_removed AND archive_bytes IS NULL;

-- An archive of a skill that was deleted, and that an accepted execution still needs.
ALTER TABLE loose_archives ADD COLUMN size_bytes BIGINT NOT NULL DEFAULT 0;

-- Changes that are not in `tenants.stored_bytes` yet. On Postgres every transaction adds rows here, because transactions
-- that update one row would wait for each other; they are added up every few seconds. On SQLite it stays empty.
CREATE TABLE storage_changes (
    tenant TEXT NOT NULL,
    bytes  BIGINT NOT NULL
);
CREATE INDEX storage_changes_by_tenant ON storage_changes (tenant);


-- What a row counts for. `octet_length` reads no text that is stored out of line. The result of an execution counts for
-- 8 KiB from the start, so that the record of one whose result has no room has some.
CREATE FUNCTION row_bytes(executions) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT octet_length($1.request)::BIGINT + COALESCE(octet_length($1.input), 0) + COALESCE(octet_length($1.webhook), 0)
        + GREATEST(8192, octet_length($1.logs) + COALESCE(octet_length($1.output), 0)
            + COALESCE(octet_length($1.error), 0) + COALESCE(octet_length($1.detail), 0)
            + COALESCE(octet_length($1.receipt), 0))
        + CASE WHEN $1.has_archive AND NOT $1.archive_removed THEN COALESCE($1.archive_bytes, 0) ELSE 0 END
$$;
CREATE FUNCTION row_bytes(skills) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT $1.size_bytes + octet_length($1.description) + octet_length($1.scripts) + octet_length($1.manifest)
        + octet_length($1.findings)
$$;
CREATE FUNCTION row_bytes(files) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$ SELECT $1.size_bytes $$;
CREATE FUNCTION row_bytes(loose_archives) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$ SELECT $1.size_bytes $$;
CREATE FUNCTION row_bytes(log_segments) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$ SELECT octet_length($1.text)::BIGINT $$;

-- For tables with a column `tenant`.
CREATE FUNCTION count_stored() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change BIGINT;
BEGIN
    IF TG_OP = 'INSERT' THEN
        change := row_bytes(NEW);
    ELSIF TG_OP = 'UPDATE' THEN
        change := row_bytes(NEW) - row_bytes(OLD);
    ELSE
        change := -row_bytes(OLD);
        NEW := OLD;
    END IF;
    IF change <> 0 THEN
        INSERT INTO storage_changes (tenant, bytes) VALUES (NEW.tenant, change);
    END IF;
    RETURN NULL;
END
$$;
-- Pieces of a log are removed before their execution, so its tenant is found.
CREATE FUNCTION count_log_segment() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change BIGINT;
BEGIN
    IF TG_OP = 'INSERT' THEN
        change := row_bytes(NEW);
    ELSE
        change := -row_bytes(OLD);
        NEW := OLD;
    END IF;
    INSERT INTO storage_changes (tenant, bytes) SELECT tenant, change FROM executions WHERE id = NEW.execution_id;
    RETURN NULL;
END
$$;

-- Making a trigger locks its table against changes until the end of this step, so nothing is missed or counted twice below.
CREATE TRIGGER executions_counted AFTER INSERT OR DELETE OR UPDATE OF input, request, output, logs, error, detail, receipt,
    webhook, has_archive, archive_removed, archive_bytes ON executions FOR EACH ROW EXECUTE FUNCTION count_stored();
CREATE TRIGGER skills_counted AFTER INSERT OR DELETE OR UPDATE ON skills FOR EACH ROW EXECUTE FUNCTION count_stored();
CREATE TRIGGER files_counted AFTER INSERT OR DELETE OR UPDATE OF size_bytes ON files
    FOR EACH ROW EXECUTE FUNCTION count_stored();
CREATE TRIGGER loose_archives_counted AFTER INSERT OR DELETE OR UPDATE OF size_bytes ON loose_archives
    FOR EACH ROW EXECUTE FUNCTION count_stored();
CREATE TRIGGER log_segments_counted AFTER INSERT OR DELETE ON log_segments
    FOR EACH ROW EXECUTE FUNCTION count_log_segment();

-- What is stored already.
UPDATE tenants SET stored_bytes = stored.bytes FROM (
    SELECT tenant, SUM(bytes) AS bytes FROM (
        SELECT tenant, row_bytes(executions) AS bytes FROM executions
        UNION ALL SELECT tenant, row_bytes(skills) FROM skills
        UNION ALL SELECT tenant, size_bytes FROM files
        UNION ALL SELECT tenant, row_bytes(log_segments) FROM log_segments JOIN executions ON executions.id = execution_id
    ) AS counted GROUP BY tenant
) AS stored WHERE stored.tenant = tenants.id;

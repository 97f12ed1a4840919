
-- What a row counts for. Virtual: computed when it is read. The result of an execution counts for 8 KiB from the start, so
-- that the record of one whose result has no room has some.
ALTER TABLE executions ADD COLUMN row_bytes BIGINT GENERATED ALWAYS AS (
    octet_length(request) + COALESCE(octet_length(input), 0) + COALESCE(octet_length(webhook), 0)
    + MAX(8192, octet_length(logs) + COALESCE(octet_length(output), 0) + COALESCE(octet_length(error), 0)
        + COALESCE(octet_length(detail), 0) + COALESCE(octet_length(receipt), 0))
    + CASE WHEN has_archive AND NOT archive_removed THEN COALESCE(archive_bytes, 0) ELSE 0 END
) VIRTUAL;
ALTER TABLE skills ADD COLUMN row_bytes BIGINT GENERATED ALWAYS AS (
    size_bytes + octet_length(description) + octet_length(scripts) + octet_length(manifest) + octet_length(findings)
) VIRTUAL;

CREATE TRIGGER executions_counted AFTER INSERT ON executions BEGIN
    UPDATE tenants SET stored_bytes = stored_bytes + NEW.row_bytes WHERE id = NEW.tenant;
END;
CREATE TRIGGER executions_recounted AFTER UPDATE OF input, request, output, logs, error, detail, receipt, webhook,
    has_archive, archive_removed, archive_bytes ON executions WHEN NEW.row_bytes <> OLD.row_bytes BEGIN
    UPDATE tenants SET stored_bytes = stored_bytes + NEW.row_bytes - OLD.row_bytes WHERE id = NEW.tenant;
END;
CREATE TRIGGER executions_uncounted AFTER DELETE ON executions BEGIN
    UPDATE tenants SET stored_bytes = stored_bytes - OLD.row_bytes WHERE id = OLD.tenant;
END;

CREATE TRIGGER skills_counted AFTER INSERT ON skills BEGIN
    UPDATE tenants SET stored_bytes = stored_bytes + NEW.row_bytes WHERE id = NEW.tenant;
END;
CREATE TRIGGER skills_recounted AFTER UPDATE ON skills WHEN NEW.row_bytes <> OLD.row_bytes BEGIN
    UPDATE tenants SET stored_bytes = stored_bytes + NEW.row_bytes - OLD.row_bytes WHERE id = NEW.tenant;
END;
CREATE TRIGGER skills_uncounted AFTER DELETE ON skills BEGIN
    UPDATE tenants SET stored_bytes = stored_bytes - OLD.row_bytes WHERE id = OLD.tenant;
END;

CREATE TRIGGER files_counted AFTER INSERT ON files BEGIN
    UPDATE tenants SET stored_bytes = stored_bytes + NEW.size_bytes WHERE id = NEW.tenant;
END;
CREATE TRIGGER files_recounted AFTER UPDATE OF size_bytes ON files BEGIN
    UPDATE tenants SET stored_bytes = stored_bytes + NEW.size_bytes - OLD.size_bytes WHERE id = NEW.tenant;
END;
CREATE TRIGGER files_uncounted AFTER DELETE ON files BEGIN
    UPDATE tenants SET stored_bytes = stored_bytes - OLD.size_bytes WHERE id = OLD.tenant;
END;

CREATE TRIGGER loose_archives_counted AFTER INSERT ON loose_archives WHEN NEW.size_bytes <> 0 BEGIN
    UPDATE tenants SET stored_bytes = stored_bytes + NEW.size_bytes WHERE id = NEW.tenant;
END;
CREATE TRIGGER loose_archives_recounted AFTER UPDATE OF size_bytes ON loose_archives BEGIN
    UPDATE tenants SET stored_bytes = stored_bytes + NEW.size_bytes - OLD.size_bytes WHERE id = NEW.tenant;
END;
CREATE TRIGGER loose_archives_uncounted AFTER DELETE ON loose_archives WHEN OLD.size_bytes <> 0 BEGIN
    UPDATE tenants SET stored_bytes = stored_bytes - OLD.size_bytes WHERE id = OLD.tenant;
END;

-- Pieces of a log are removed before their execution, so its tenant is found.
CREATE TRIGGER log_segments_counted AFTER INSERT ON log_segments BEGIN
    UPDATE tenants SET stored_bytes = stored_bytes + octet_length(NEW.text)
        WHERE id = (SELECT tenant FROM executions WHERE id = NEW.execution_id);
END;
CREATE TRIGGER log_segments_uncounted AFTER DELETE ON log_segments BEGIN
    UPDATE tenants SET stored_bytes = stored_bytes - octet_length(OLD.text)
        WHERE id = (SELECT tenant FROM executions WHERE id = OLD.execution_id);
END;

-- What is stored already.
UPDATE tenants SET stored_bytes =
    COALESCE((SELECT SUM(row_bytes) FROM executions WHERE tenant = tenants.id), 0)
    + COALESCE((SELECT SUM(row_bytes) FROM skills WHERE tenant = tenants.id), 0)
    + COALESCE((SELECT SUM(size_bytes) FROM files WHERE tenant = tenants.id), 0)
    + COALESCE((SELECT SUM(octet_length(text)) FROM log_segments JOIN executions ON executions.id = execution_id
                WHERE tenant = tenants.id), 0);

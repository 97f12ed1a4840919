-- What the scanner finds in uploads, and what people decided about it.

-- `off`, `report`, `review` or `block`.
ALTER TABLE tenants ADD COLUMN scan TEXT NOT NULL DEFAULT 'report';

-- What lint and the scanner said when this content was uploaded, as JSON.
ALTER TABLE skills ADD COLUMN findings TEXT NOT NULL DEFAULT '[]';

-- A reviewer's word on some content. It outlives the skill, so that uploading the same again asks nobody twice.
CREATE TABLE skill_reviews (
    tenant     TEXT NOT NULL REFERENCES tenants (id),
    digest     TEXT NOT NULL,
    verdict    TEXT NOT NULL,
    decided_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, digest)
);

"""Objects against the schemas of Kubernetes, strictly: a field that does not exist is an error."""

import functools
import json

import jsonschema
import kubernetes_validate
import kubernetes_validate.utils

from support import TESTS, named

# The oldest that the chart says it works with, and the newest that has schemas.
VERSIONS = ("1.30.0", "1.37.0")
OWN_SCHEMAS = {"ServiceMonitor": "servicemonitor.json"}
# It reads its megabytes again for every object, and there are hundreds.
kubernetes_validate.utils.schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)


@functools.cache
def own_schema(kind):
    return json.loads((TESTS / "schemas" / OWN_SCHEMAS[kind]).read_text())


def errors(objects):
    """One text for each object and version that does not fit."""
    for value in objects:
        if value["kind"] in OWN_SCHEMAS:
            found = jsonschema.Draft7Validator(own_schema(value["kind"])).iter_errors(value)
            yield from (f"{named(value)}: {error.message}" for error in found)
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(value, version, strict=True)
            except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
                yield f"{named(value)} in {version}: {error.message}"

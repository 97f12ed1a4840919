"""Which settings of the program can stand under `settings` in the chart's values: all but those that the chart gives itself."""

import json
import re

from support import CHART, ROOT, json_text

# The chart gives these itself, from other values or from a Secret, or they mean nothing in a pod of Kubernetes.
OWNED = {
    "role", "data_dir", "db_dsn", "secret", "bootstrap_key", "api_port", "public_url", "drain_timeout", "sandbox",
    "docker_host", "docker_runtime", "runtime_path", "launchers", "migrate_on_start", "max_concurrent_execs",
    "redis_url", "image_allowlist",
}  # fmt: skip
OWNED_PREFIXES = ("s3_", "kube_", "image_")
# Secrets that are rarely needed come through api.extraEnv, with a reference to a Secret.
SECRET = {"jwt_secret", "metrics_token"}

SCHEMA = CHART / "values.schema.json"


def documented():
    """Every setting that docs/configuration.md lists, by its key in the file."""
    page = (ROOT / "docs" / "configuration.md").read_text()
    return [name.lower() for name in re.findall(r"^\| `SKILLBOX_([A-Z0-9_]+)` \|", page, re.MULTILINE)]


def default(key):
    """The default of a setting, as docs/configuration.md has it."""
    page = (ROOT / "docs" / "configuration.md").read_text()
    return re.search(rf"^\| `SKILLBOX_{key.upper()}` \| ([^ |]+) \|", page, re.MULTILINE)[1]


def allowed():
    return sorted(key for key in documented() if key not in OWNED | SECRET and not key.startswith(OWNED_PREFIXES))


def schema_with(keys):
    """The schema's text with these settings in it."""
    schema = json.loads(SCHEMA.read_text())
    value = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer"}, {"type": "boolean"}]}
    schema["definitions"]["setting"] = value
    schema["properties"]["settings"]["properties"] = {key: {"$ref": "#/definitions/setting"} for key in keys}
    return json_text(schema) + "\n"

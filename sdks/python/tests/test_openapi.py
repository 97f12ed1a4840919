"""The API against this package: a route, a field or a parameter that the server has and we have not fails here.

When it does: write the method and its model, and add a line to `ROUTES` or `MODELS`. What no SDK
has on purpose stands in `sdks/conformance/left-out.json` with its reason. `test_failures.py` has every method fail.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import re
from contextlib import asynccontextmanager, contextmanager

import pytest

import skillbox
from skillbox import models

from .conftest import ROOT

API = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))

LEFT_OUT = json.loads((ROOT / "sdks" / "conformance" / "left-out.json").read_text(encoding="utf-8"))

ZIP = ROOT / "examples" / "skills" / "word-counter"
FILE = ROOT / "README.md"
# Each with everything that its query can hold.
ROUTES = {
    "GET /health": lambda c: c.health(),
    "GET /ready": lambda c: c.ready(),
    "GET /v1/audit": lambda c: c.iter_audit(),
    "GET /v1/audit/head": lambda c: c.get_audit_head(),
    "GET /v1/executions": lambda c: c.iter_executions(skill="s", status="x", since="2026-01-01T00:00:00Z", key="k"),
    "POST /v1/executions": lambda c: c.run("s"),
    "GET /v1/executions/{id}": lambda c: c.get_execution("x"),
    "POST /v1/executions/{id}/cancel": lambda c: c.cancel("x"),
    "GET /v1/executions/{id}/events": lambda c: c.events("x"),
    "GET /v1/executions/{id}/files": lambda c: c.list_execution_files("x"),
    "GET /v1/executions/{id}/files/{path}": lambda c: c.download_execution_file("x", "y", "/dev/shm/never"),
    "GET /v1/executions/{id}/logs": lambda c: c.get_execution_logs("x"),
    "GET /v1/keys": lambda c: c.list_keys(),
    "POST /v1/keys": lambda c: c.create_key("k"),
    "DELETE /v1/keys/{id}": lambda c: c.revoke_key("x"),
    "GET /v1/skills": lambda c: c.list_skills(),
    "POST /v1/skills": lambda c: c.register_skill(ZIP),
    "POST /v1/skills/validate": lambda c: c.validate_skill(ZIP, profile="strict"),
    "GET /v1/skills/prompt": lambda c: c.skills_prompt(),
    "GET /v1/skills/{name}/versions": lambda c: c.list_skill_versions("s"),
    "GET /v1/skills/{name}/{version}": lambda c: c.get_skill("s"),
    "DELETE /v1/skills/{name}/{version}": lambda c: c.delete_skill("s", "1"),
    "GET /v1/skills/{name}/{version}/content": lambda c: c.download_skill("s", "/dev/shm/never"),
    "GET /v1/skills/{name}/{version}/files": lambda c: c.list_skill_files("s"),
    "GET /v1/skills/{name}/{version}/files/{path}": lambda c: c.read_skill_file("s", "p"),
    "GET /v1/tenants": lambda c: c.list_tenants(),
    "POST /v1/tenants": lambda c: c.create_tenant("t"),
    "GET /v1/tenants/{id}": lambda c: c.get_tenant("t"),
    "PUT /v1/tenants/{id}": lambda c: c.update_tenant("t", {}),
    "DELETE /v1/tenants/{id}": lambda c: c.delete_tenant("t"),
    "GET /v1/trust/keys": lambda c: c.list_trusted_keys(),
    "POST /v1/trust/keys": lambda c: c.trust_key("k"),
    "DELETE /v1/trust/keys/{id}": lambda c: c.revoke_trusted_key("x"),
    "GET /v1/trust/digests": lambda c: c.list_revoked_digests(),
    "POST /v1/trust/digests": lambda c: c.revoke_digest("d"),
    "DELETE /v1/trust/digests/{digest}": lambda c: c.restore_digest("d"),
    "GET /v1/trust/versions": lambda c: c.list_newest_versions(),
    "DELETE /v1/trust/versions/{name}": lambda c: c.forget_newest_version("s"),
    "POST /v1/skills/{name}/{version}/approve": lambda c: c.approve_skill("s", "1", digest="d"),
    "POST /v1/skills/{name}/{version}/reject": lambda c: c.reject_skill("s", "1", digest="d"),
    "GET /v1/executions/{id}/receipt": lambda c: c.get_receipt("x"),
    "GET /v1/receipts/key": lambda c: c.get_receipt_keys(),
    "GET /v1/usage": lambda c: c.get_usage(),
    "GET /v1/webhooks/secret": lambda c: c.get_webhook_secret(),
    "POST /v1/files": lambda c: c.upload_file(FILE),
    "GET /v1/files": lambda c: c.list_files(session_id="s", execution_id="x", limit=1, offset=1),
    "GET /v1/files/{id}": lambda c: c.get_file("x"),
    "PUT /v1/files/{id}": lambda c: c.update_file("x", FILE),
    "DELETE /v1/files/{id}": lambda c: c.delete_file("x"),
    "GET /v1/files/{id}/download": lambda c: c.download_file("x", "/dev/shm/never"),
    "GET /v1/files/{id}/versions": lambda c: c.list_file_versions("x"),
}

MODELS = {
    "AuditEntry": models.AuditEntry,
    "Cancelled": models.Cancelled,
    "CreatedKey": models.Key,
    "ExecutionResult": models.RunResult,
    "ExecutionSummary": models.ExecutionSummary,
    "File": models.FileInfo,
    "Facts": models.RunResult,
    "FindingCounts": models.FindingCounts,
    "KeyView": models.Key,
    "Doubt": models.Doubt,
    "NetworkAttempt": models.NetworkAttempt,
    "NewestVersion": models.NewestVersion,
    "Policy": models.Policy,
    "Published": models.PublishedSkill,
    "Ready": models.Readiness,
    "Receipt": models.Receipt,
    "ReceiptKey": models.ReceiptKey,
    "ReceiptKeys": models.ReceiptKeys,
    "RevokedDigestView": models.RevokedDigest,
    "Script": models.Script,
    "SignedAuditHead": models.SignedAuditHead,
    "SkillDetail": models.SkillDetail,
    "SkillFileEntry": models.SkillFile,
    "SkillFinding": models.Finding,
    "SkillSignature": models.SkillSignature,
    "SkillSummary": models.Skill,
    "SkippedFile": models.SkippedFile,
    "StoredExecution": models.RunResult,
    "TenantUsage": models.TenantUsage,
    "TenantView": models.Tenant,
    "Timings": models.Timings,
    "TrustedKeyView": models.TrustedKey,
    "Usage": models.Usage,
    "Validation": models.Validation,
}
PLAIN = {
    "Checks": "a dict, Readiness.checks",
    "Health": "health() returns nothing",
    "RequestedLimits": "a dict, the parameter limits",
    "Resources": "a dict, SkillDetail.resources",
    "UploadForm": "a skill is sent as a zip, and a directory is packed",
    "WebhookSecret": "get_webhook_secret() returns the string",
}
NOT_ASKED = {
    "after": "the header Last-Event-ID says the same",
    "cursor": "lists follow it by themselves",
    "offset": "for clients without cursors",
}
PARAMETERS = {
    "ExecutionRequest": (skillbox.Client.start, {"mode": "run() and start() are the two modes"}),
    "NewKey": (skillbox.Client.create_key, {}),
    "NewTrustedKeyBody": (skillbox.Client.trust_key, {}),
    "DigestToRevoke": (skillbox.Client.revoke_digest, {}),
    "NewTenant": (skillbox.Client.create_tenant, {"id": "tenant_id"}),
    "TenantChange": (skillbox.Client.update_tenant, {}),
    "FileUpload": (skillbox.Client.upload_file, {"file": "path"}),
}


class Recorded(BaseException):
    """Carries a call out of the client before anything is sent."""


class Recorder(skillbox.Client):
    @contextmanager
    def _open(self, call, request_id):
        raise Recorded(call)
        yield


class AsyncRecorder(skillbox.AsyncClient):
    @asynccontextmanager
    async def _open(self, call, request_id):
        raise Recorded(call)
        yield


def recorded(client, use):
    async def until_sent():
        value = use(client)
        if hasattr(value, "__aiter__"):
            await value.__anext__()
        elif inspect.isawaitable(value):
            await value
        elif hasattr(value, "__next__"):
            next(value)

    with pytest.raises(Recorded) as caught:
        asyncio.run(until_sent())
    return caught.value.args[0]


def api_routes():
    return {f"{method.upper()} {path}" for path, methods in API["paths"].items() for method in methods}


def test_every_route_is_here_or_left_out_for_a_reason():
    assert api_routes() - set(ROUTES) == set(LEFT_OUT)
    assert set(ROUTES) <= api_routes(), "the server no longer has these"


@pytest.mark.parametrize("client", [Recorder("http://h", "k"), AsyncRecorder("http://h", "k")], ids=repr)
@pytest.mark.parametrize("route", ROUTES)
def test_a_method_asks_its_route(route, client):
    call = recorded(client, ROUTES[route])
    method, _, path = route.partition(" ")
    assert call.method == method
    assert re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), call.path)
    asked = {name for name, _ in call.query}
    known = {part["name"] for part in operation(route).get("parameters", []) if part["in"] == "query"}
    assert known - asked <= set(NOT_ASKED)
    assert asked <= known, "the server does not read these"


def test_every_field_of_an_answer_is_here():
    missing = []
    for name in sorted(response_schemas()):
        if name in PLAIN:
            continue
        model = MODELS.get(name)
        fields = {field.name for field in dataclasses.fields(model)} if model else set()
        missing += [f"{name}.{field}" for field in properties(API["components"]["schemas"][name]) - fields]
    assert missing == []


def test_every_key_of_a_request_is_a_parameter():
    missing = []
    for name in sorted(request_schemas() - set(PLAIN)):
        known = set()
        if name in PARAMETERS:
            method, renamed = PARAMETERS[name]
            known = set(inspect.signature(method).parameters) | set(renamed)
        elif name in MODELS:
            known = {field.name for field in dataclasses.fields(MODELS[name])}
        missing += [f"{name}.{key}" for key in properties(API["components"]["schemas"][name]) - known]
    assert missing == []
    assert set(PARAMETERS) <= request_schemas(), "no route takes these"


def test_every_error_has_a_type_of_its_own():
    statuses = {status for methods in API["paths"].values() for op in methods.values() for status in op["responses"]}
    generic = {int(s) for s in statuses if s >= "400" and skillbox.errors.for_status(int(s)) is skillbox.APIError}
    assert generic <= {405, 408, 415}, "faults of the client itself need none"


def operation(route):
    method, _, path = route.partition(" ")
    return API["paths"].get(path, {}).get(method.lower(), {})


def response_schemas():
    """The names of all schemas that an answer to one of our routes can hold."""
    answers = [answer for route in ROUTES for answer in operation(route).get("responses", {}).items()]
    return schemas_in([answer for status, answer in answers if status < "400"])


def request_schemas():
    """The names of all schemas that a request to one of our routes can hold."""
    return schemas_in([operation(route).get("requestBody", {}) for route in ROUTES])


def schemas_in(waiting):
    found = set()
    while waiting:
        for name in set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(waiting.pop()))) - found:
            schema = API["components"]["schemas"][name]
            if "enum" not in schema and schema.get("type") != "integer":
                found.add(name)
                waiting.append(schema)
    return found


def properties(schema):
    """The keys of a schema, with those of the schemas it is made of."""
    found = set(schema.get("properties", {}))
    for part in schema.get("allOf", []):
        named = part.get("$ref", "").rpartition("/")[2]
        found |= properties(API["components"]["schemas"][named] if named else part)
    return found

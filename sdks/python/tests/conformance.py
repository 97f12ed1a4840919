"""Runs the conformance cases of `sdks/conformance/cases.json` with both clients.

A plain program, so that it also runs where nothing but the package is installed: `python tests/conformance.py`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import os
import socket
import sys
import tempfile
import uuid
from pathlib import Path

import skillbox
from skillbox import errors
from skillbox.models import LogEvent, ResultEvent, StateEvent

HERE = Path(os.environ.get("SKILLBOX_CONFORMANCE", Path(__file__).parents[2] / "conformance"))
LIVE = os.environ.get("SKILLBOX_TEST_URL", "")
KEY = os.environ.get("SKILLBOX_TEST_KEY", "")
STANDIN = os.environ.get("SKILLBOX_TEST_STANDIN", "")

KINDS = {
    "bad_request": errors.BadRequestError,
    "authentication": errors.AuthenticationError,
    "permission": errors.PermissionDeniedError,
    "not_found": errors.NotFoundError,
    "conflict": errors.ConflictError,
    "too_large": errors.TooLargeError,
    "unprocessable": errors.UnprocessableError,
    "rate_limit": errors.RateLimitError,
    "server": errors.ServerError,
    "connection": errors.ConnectionFailedError,
    "timeout": errors.CallTimeoutError,
    "invalid_response": errors.InvalidResponseError,
    "archive": errors.ArchiveError,
    "unsafe_path": errors.UnsafePathError,
}


def load_cases():
    return json.loads((HERE / "cases.json").read_text(encoding="utf-8"))


def run_case(case, client_type):
    """Runs one case; raises AssertionError with the step that went wrong."""
    saved = {"unique": f"t-{uuid.uuid4().hex[:12]}"}
    for step in case["steps"]:
        operations = Operations(_client(client_type, case, step, saved))
        try:
            _run_step(operations, step, saved)
        except AssertionError as cause:
            raise AssertionError(f"{case['name']}: {step['do']}: {cause}") from cause
        finally:
            operations.close()


def _client(client_type, case, step, saved):
    settings = _filled({**case.get("client", {}), **step.get("client", {})}, saved)
    return client_type(
        _address(case["server"]),
        settings.get("api_key", KEY),
        tenant_id=settings.get("tenant", ""),
        timeout=settings.get("timeout"),
        retries=settings.get("retries", 3),
    )


def _address(server):
    if server == "live":
        return LIVE
    if server == "nowhere":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return f"http://127.0.0.1:{free.getsockname()[1]}"
    return f"{STANDIN}/{server}"


def _run_step(operations, step, saved):
    given = _filled(step.get("with", {}), saved)
    if "error" in step:
        return _expect_error(operations, step["do"], given, step["error"])
    result = _plain(getattr(operations, step["do"])(**given))
    if "expect" in step:
        problem = mismatch(_filled(step["expect"], saved), result)
        assert not problem, f"{problem} in {result!r}"
    for name, field in step.get("save", {}).items():
        saved[name] = result[field]


def _expect_error(operations, name, given, expected):
    try:
        result = getattr(operations, name)(**given)
    except errors.SkillboxError as error:
        assert type(error) is KINDS[expected["kind"]], f"expected {expected}, got {error!r}"
        if isinstance(error, errors.APIError):
            assert error.request_id, f"{error!r} has no request id"
            assert error.request_id == expected.get("request_id", error.request_id), str(error)
            assert error.status_code == expected.get("status", error.status_code), repr(error)
            assert error.error_code == expected.get("code", error.error_code), repr(error)
            assert error.retry_after == expected.get("retry_after", error.retry_after), repr(error)
        return
    raise AssertionError(f"expected {expected}, got {result!r}")


class Operations:
    """The vocabulary of the cases. What a client gives is awaited where it needs to be."""

    def __init__(self, client):
        self.client = client
        self.loop = asyncio.new_event_loop() if isinstance(client, skillbox.AsyncClient) else None
        self.directory = tempfile.TemporaryDirectory()
        self.place = Path(self.directory.name)

    def close(self):
        self.directory.cleanup()
        if self.loop:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def now(self, value):
        if self.loop is None:
            return value if not hasattr(value, "__next__") else list(value)
        if hasattr(value, "__aiter__"):
            return self.loop.run_until_complete(_collected(value))
        return self.loop.run_until_complete(value)

    def run(self, **given):
        return self.now(self.client.run(**_input(given)))

    def start(self, **given):
        return self.now(self.client.start(**_input(given)))

    def wait(self, id, timeout=None):
        return self.now(self.client.wait(id, timeout=timeout))

    def follow(self, id):
        events = self.now(self.client.events(id))
        assert len({event.id for event in events}) == len(events), "an event came twice"
        return {
            "states": [event.status for event in events if isinstance(event, StateEvent)],
            "log": "".join(event.text for event in events if isinstance(event, LogEvent)),
            "result": next(event.result for event in events if isinstance(event, ResultEvent)),
        }

    def await_log(self, id, text):
        """Leaves the stream in its middle, as an impatient reader does."""
        if self.loop:
            return self.loop.run_until_complete(self._await_log(id, text))
        for event in self.client.events(id):
            if isinstance(event, LogEvent) and text in event.text:
                return None
        raise AssertionError("the log ended")

    async def _await_log(self, id, text):
        events = self.client.events(id)
        async for event in events:
            if isinstance(event, LogEvent) and text in event.text:
                return await events.aclose()
        raise AssertionError("the log ended")

    def get_execution(self, id):
        return self.now(self.client.get_execution(id))

    def get_execution_logs(self, id):
        return {"text": self.now(self.client.get_execution_logs(id))}

    def cancel(self, id):
        return self.now(self.client.cancel(id))

    def list_executions(self, **given):
        ids = [row.execution_id for row in self.now(self.client.iter_executions(**given))]
        return {"distinct": len(set(ids)), "repeated": len(ids) - len(set(ids))}

    def list_execution_files(self, id):
        return self.now(self.client.list_execution_files(id))

    def download_execution_file(self, id, name):
        return _file(self.now(self.client.download_execution_file(id, name, self.place / "file")))

    def download_files(self, id):
        result = self.now(self.client.get_execution(id))
        inside = self.place / "in" / "side"
        try:
            written = self.now(self.client.download_files(result, inside))
        finally:
            around = {path.relative_to(self.place).parts[:2] for path in self.place.rglob("*")}
            assert around <= {("in",), ("in", "side")}, f"something lies outside: {around}"
            assert not os.path.exists("/tmp/skillbox-escaped.txt")
        return {path.relative_to(inside.resolve()).as_posix(): _file(path) for path in written}

    def register_skill(self, path):
        return self.now(self.client.register_skill(HERE / path))

    def validate_skill(self, path, **given):
        return self.now(self.client.validate_skill(HERE / path, **given))

    def skills_prompt(self):
        return {"text": self.now(self.client.skills_prompt())}

    def list_skills(self):
        return self.now(self.client.list_skills())

    def get_skill(self, name):
        return self.now(self.client.get_skill(name))

    def list_skill_versions(self, name):
        return self.now(self.client.list_skill_versions(name))

    def list_skill_files(self, name):
        return self.now(self.client.list_skill_files(name))

    def read_skill_file(self, name, path):
        return {"text": self.now(self.client.read_skill_file(name, path)).decode()}

    def download_skill(self, name):
        return {"digest": "sha256:" + _file(self.now(self.client.download_skill(name, self.place / "zip")))["sha256"]}

    def delete_skill(self, name, version):
        return self.now(self.client.delete_skill(name, version))

    def upload_file(self, size, filename, name=""):
        return self.now(self.client.upload_file(self._made(size, filename), name=name))

    def update_file(self, id, size, filename):
        return self.now(self.client.update_file(id, self._made(size, filename)))

    def _made(self, size, filename):
        path = self.place / filename
        path.write_bytes((bytes(range(251)) * (size // 251 + 1))[:size])
        return path

    def get_file(self, id):
        return self.now(self.client.get_file(id))

    def download_file(self, id):
        return _file(self.now(self.client.download_file(id, self.place / "file")))

    def list_files(self, **given):
        return self.now(self.client.list_files(**given))

    def iter_files(self, **given):
        return self.now(self.client.iter_files(**given))

    def list_file_versions(self, id):
        return self.now(self.client.list_file_versions(id))

    def delete_file(self, id):
        return self.now(self.client.delete_file(id))

    def health(self):
        return self.now(self.client.health())

    def ready(self):
        return self.now(self.client.ready())

    def create_key(self, **given):
        return self.now(self.client.create_key(**given))

    def list_keys(self):
        return self.now(self.client.list_keys())

    def revoke_key(self, id):
        return self.now(self.client.revoke_key(id))

    def create_tenant(self, id, policy):
        return self.now(self.client.create_tenant(id, policy=policy))

    def update_tenant(self, id, policy):
        return self.now(self.client.update_tenant(id, policy))

    def get_tenant(self, id):
        return self.now(self.client.get_tenant(id))

    def get_usage(self):
        return self.now(self.client.get_usage())

    def list_tenants(self):
        return self.now(self.client.list_tenants())

    def delete_tenant(self, id):
        return self.now(self.client.delete_tenant(id))

    def get_audit_head(self):
        return self.now(self.client.get_audit_head())

    def list_audit(self):
        return self.now(self.client.iter_audit(page_size=200))

    def trust_key(self, **given):
        return self.now(self.client.trust_key(**given))

    def list_trusted_keys(self):
        return self.now(self.client.list_trusted_keys())

    def revoke_trusted_key(self, id):
        return self.now(self.client.revoke_trusted_key(id))

    def revoke_digest(self, **given):
        return self.now(self.client.revoke_digest(**given))

    def list_revoked_digests(self):
        return self.now(self.client.list_revoked_digests())

    def restore_digest(self, digest):
        return self.now(self.client.restore_digest(digest))

    def list_newest_versions(self):
        return self.now(self.client.list_newest_versions())

    def forget_newest_version(self, name):
        return self.now(self.client.forget_newest_version(name))

    def approve_skill(self, **given):
        return self.now(self.client.approve_skill(**given))

    def reject_skill(self, **given):
        return self.now(self.client.reject_skill(**given))

    def get_receipt(self, id):
        return self.now(self.client.get_receipt(id))

    def get_receipt_keys(self):
        return self.now(self.client.get_receipt_keys())

    def get_webhook_secret(self):
        return {"secret": self.now(self.client.get_webhook_secret())}


async def _collected(items):
    return [item async for item in items]


def _input(given):
    if "input" in given and given["input"] is None:
        return {**given, "input": skillbox.NULL}
    return given


def _file(path):
    data = Path(path).read_bytes()
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _plain(value):
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if dataclasses.is_dataclass(value):
        document = dataclasses.asdict(value)
        return {**document, "has_files": value.has_files} if isinstance(value, skillbox.RunResult) else document
    return value


def _filled(value, saved):
    if isinstance(value, str) and value.startswith("$") and value[1:] in saved:
        return saved[value[1:]]
    if isinstance(value, list):
        return [_filled(item, saved) for item in value]
    if isinstance(value, dict):
        return {name: _filled(item, saved) for name, item in value.items()}
    return value


MATCHERS = {
    "$any": lambda wanted, got: True,
    "$empty": lambda wanted, got: got in (None, "", []),
    "$equals": lambda wanted, got: got == wanted,
    "$contains": lambda wanted, got: isinstance(got, str) and wanted in got,
    "$length": lambda wanted, got: got is not None and len(got) == wanted,
    "$at_least": lambda wanted, got: got >= wanted,
    "$one_of": lambda wanted, got: got in wanted,
    "$some": lambda wanted, got: any(not mismatch(wanted, item) for item in got),
}


def mismatch(wanted, got):
    """What does not fit, or nothing."""
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            if name in MATCHERS:
                if not MATCHERS[name](value, got):
                    return f"not {name} {value!r}"
            elif not isinstance(got, dict):
                return f"no object: {got!r}"
            elif problem := mismatch(value, got.get(name)):
                return f"{name}: {problem}"
        return ""
    if isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        return next(filter(None, map(mismatch, wanted, got)), "")
    return "" if wanted == got and type(wanted) is type(got) else f"expected {wanted!r}, got {got!r}"


def main():
    assert LIVE and KEY and STANDIN, "scripts/test-sdks.sh starts the servers that this needs"
    failed = 0
    for client_type in (skillbox.Client, skillbox.AsyncClient):
        for case in load_cases():
            try:
                run_case(case, client_type)
            except Exception as error:
                failed += 1
                print(f"FAILED {client_type.__name__}: {case['name']}: {error!r}")
    print(f"conformance of Python: {2 * len(load_cases()) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

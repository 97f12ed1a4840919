"""What the tests share: the servers that scripts/test-sdks.sh started."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

import skillbox

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def live():
    """A client of the live server, with the example skills published."""
    client = skillbox.Client(_required("SKILLBOX_TEST_URL"), _required("SKILLBOX_TEST_KEY"))
    for name in ("word-counter", "svg-chart", "text-tools", "invoice-total"):
        client.register_skill(ROOT / "examples" / "skills" / name)
    return client


@pytest.fixture
def live_async(live):
    return skillbox.AsyncClient(live.base_url, live.api_key)


@pytest.fixture
def tenant(live):
    """A client that acts for a new tenant."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    live.create_tenant(name)
    return skillbox.Client(live.base_url, live.api_key, tenant_id=name)


@pytest.fixture(scope="session")
def standin():
    return _required("SKILLBOX_TEST_STANDIN")


def _required(name):
    # Not skipped: a test that did not run must not look green.
    return os.environ.get(name) or pytest.fail(f"{name} is not set; run the tests with scripts/test-sdks.sh python")

"""The cases that every SDK must pass, with both clients."""

import pytest

import skillbox

from . import conformance


@pytest.mark.parametrize("client_type", [skillbox.Client, skillbox.AsyncClient])
@pytest.mark.parametrize("case", conformance.load_cases(), ids=lambda case: case["name"])
def test_case(case, client_type, live, standin):
    conformance.run_case(case, client_type)

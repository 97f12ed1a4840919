"""The snippets of the READMEs run as they stand, with only the address replaced."""

import re
import textwrap

import pytest
from langchain_core.messages import AIMessage

from .conftest import ROOT
from .test_langchain import ScriptedModel, calls

FILES = [ROOT / "sdks" / "python" / "README.md", ROOT / "README.md"]


def snippets():
    for file in FILES:
        for at, code in enumerate(re.findall(r"```python\n(.*?)```", file.read_text(encoding="utf-8"), re.S)):
            # Those of MCP run where its packages are: sdks/conformance/mcp.
            if "from mcp import" not in code:
                yield pytest.param(textwrap.dedent(code), id=f"{file.parent.name}-{at}")


@pytest.mark.parametrize("code", list(snippets()))
def test_snippet(code, live, monkeypatch):
    monkeypatch.setenv("SKILLBOX_API_KEY", live.api_key)
    monkeypatch.chdir(ROOT)
    model = ScriptedModel(
        script=[calls(("skillbox_word_counter", {"input": {"text": "one two two"}})), AIMessage(content="Three.")]
    )
    local = re.sub(r"http://(localhost|127\.0\.0\.1):8080", live.base_url, code)
    exec(compile(local, "snippet", "exec"), {"__name__": "__main__", "model": model})


def test_there_are_snippets():
    assert len(list(snippets())) >= 6

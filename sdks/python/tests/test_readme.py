"""The snippets of the READMEs run as they stand, with only the address replaced."""

import re
import textwrap

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from .conftest import ROOT
from .test_langchain import ScriptedModel, calls

# What each snippet says, or has a model read, and only when its runs succeed.
SAID = {
    "sdks/python/README.md": [
        ["success 3"],
        ["chart.svg ", "hello-world", "word-counter", "sha256:"],
        ["success", "it has ended already"],
        ["True []", "0 False 3 3 words", '"timed_out":false', "hello-world"],
        ["[1, 2, 3]"],
        ['The tool says {"', '"words": 3'],
        ['"words": 3'],
    ],
    "README.md": [["'file': 'chart.svg'", "['chart.svg']"]],
}


def snippets():
    for file, expected in SAID.items():
        found = re.findall(r"```python\n(.*?)```", (ROOT / file).read_text(encoding="utf-8"), re.S)
        # Those of MCP run where its packages are: sdks/conformance/mcp.
        found = [code for code in found if "from mcp import" not in code]
        assert len(found) == len(expected), f"{file} has {len(found)} snippets; write here what each one says"
        for at, (code, said) in enumerate(zip(found, expected)):
            yield pytest.param(textwrap.dedent(code), said, id=f"{file}-{at}")


class RepeatingModel(ScriptedModel):
    """Says at last what its tool said."""

    def _generate(self, messages, *more, **settings):
        answer = super()._generate(messages, *more, **settings)
        if isinstance(messages[-1], ToolMessage):
            answer.generations[0].message = AIMessage(content=f"The tool says {messages[-1].content}")
        return answer


@pytest.mark.parametrize(("code", "said"), list(snippets()))
def test_snippet(code, said, live, monkeypatch, capsys):
    monkeypatch.setenv("SKILLBOX_API_KEY", live.api_key)
    monkeypatch.chdir(ROOT)
    model = RepeatingModel(
        script=[calls(("skillbox_word_counter", {"input": {"text": "one two two"}})), AIMessage(content="")]
    )
    local = re.sub(r"http://(localhost|127\.0\.0\.1):8080", live.base_url, code)
    exec(compile(local, "snippet", "exec"), {"__name__": "__main__", "model": model})
    read = [message.content for messages in model.seen for message in messages if isinstance(message, ToolMessage)]
    told = capsys.readouterr().out + "\n".join(read)
    for words in said:
        assert words in told

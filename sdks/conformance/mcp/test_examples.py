"""The configurations and programs of examples/clients/mcp, and the snippets of the documentation, at work."""

import json
import os
import re
import subprocess
import sys

import pytest
import skillbox

from support import server
from support.clients import HERE
from support.skills import SKILLS

ROOT = HERE.parents[2]
EXAMPLES = ROOT / "examples" / "clients" / "mcp"
#: What stands in for something of the user's, in the notation of each program.
YOURS = {
    "/home/you/skills": str(SKILLS),
    "${workspaceFolder}/skills": str(SKILLS),
    "http://localhost:8080": server.URL,
    "sk-your-key": server.ADMIN_KEY,
    "${SKILLBOX_API_KEY}": server.ADMIN_KEY,
    "${env:SKILLBOX_API_KEY}": server.ADMIN_KEY,
    "${input:skillbox-key}": server.ADMIN_KEY,
}


@pytest.fixture(scope="session")
def examples():
    """The example skills, published."""
    client = skillbox.Client(server.URL, server.ADMIN_KEY)
    for name in ("word-counter", "svg-chart", "text-tools"):
        client.register_skill(ROOT / "examples" / "skills" / name)


@pytest.fixture(scope="session")
def path(tmp_path_factory):
    """Where `skillbox` is found, as after an installation."""
    directory = tmp_path_factory.mktemp("bin")
    (directory / "skillbox").symlink_to(server.BINARY)
    return f"{directory}{os.pathsep}{os.environ['PATH']}"


def snippets(language, containing):
    for file in (ROOT / "README.md", ROOT / "docs" / "mcp.md"):
        for at, text in enumerate(re.findall(rf"```{language}\n(.*?)```", file.read_text(encoding="utf-8"), re.S)):
            if containing in text:
                yield pytest.param(text, id=f"{file.stem}-{language}-{at}")


def configurations():
    for file in sorted(EXAMPLES.glob("*.json")):
        yield pytest.param(file.read_text(encoding="utf-8"), id=file.stem)
    yield from snippets("json", "mcpServers")


@pytest.mark.parametrize("client", ["python_2"], indirect=True)
@pytest.mark.parametrize("text", list(configurations()))
def test_a_configuration_leads_to_skills(client, text, path, examples):
    # `${NAME:-default}` is the default where nobody set it.
    text = re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", text)
    for placeholder, real in YOURS.items():
        text = text.replace(placeholder, real)
    assert "${" not in text
    configuration = json.loads(text)
    servers = configuration.get("mcpServers") or configuration["servers"]
    for entry in servers.values():
        opened = client.connect(how(entry, path))
        try:
            assert opened.call("list_skills")["structuredContent"]["skills"], entry
        finally:
            opened.close()


def how(entry, path):
    """What a program makes of an entry; there is nothing in it that no program knows."""
    entry = dict(entry)
    kind = entry.pop("type", "http" if "url" in entry else "stdio")
    if kind == "http":
        assert entry.keys() == {"url", "headers"}
        return entry
    assert entry.keys() <= {"command", "args", "env"}
    assert entry["command"] == "skillbox"
    inherited = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    return {**entry, "command": server.BINARY, "env": {"PATH": path, **inherited, **entry.get("env", {})}}


def run(command, path, **options):
    env = {**os.environ, "PATH": path, "SKILLBOX_SERVER_URL": server.URL, "SKILLBOX_API_KEY": server.ADMIN_KEY}
    done = subprocess.run(command, env=env, capture_output=True, text=True, encoding="utf-8", timeout=60, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_program(path, examples):
    said = run([sys.executable, EXAMPLES / "python_client.py"], path)
    assert "svg-chart" in said
    assert "… drew 2 points" in said
    assert said.splitlines()[-1].startswith("chart.svg: ")


def test_the_typescript_program(path, tmp_path):
    program = typescript(tmp_path, (EXAMPLES / "typescript.mjs").read_text(encoding="utf-8"))
    said = run(["node", program, ROOT / "examples" / "skills"], path)
    assert "skillbox_word-counter" in said
    assert "words: 3" in said


def typescript(place, code):
    """The program in a place where its packages are found."""
    (place / "node_modules").symlink_to(HERE / "node_modules")
    program = place / "program.mjs"
    program.write_text(code, encoding="utf-8")
    return program


@pytest.mark.parametrize("code", list(snippets("python", "from mcp import")))
def test_a_snippet_in_python(code, path, examples):
    said = run([sys.executable, "-c", code.replace("http://localhost:8080", server.URL)], path, cwd=ROOT)
    assert "'words': 3" in said


@pytest.mark.parametrize("code", list(snippets("ts", "@modelcontextprotocol")))
def test_a_snippet_in_typescript(code, path, examples, tmp_path):
    said = run(["node", typescript(tmp_path, code.replace("http://localhost:8080", server.URL))], path)
    assert "words: 3" in said


def test_there_are_snippets():
    assert list(snippets("json", "mcpServers"))
    assert list(snippets("python", "from mcp import"))
    assert list(snippets("ts", "@modelcontextprotocol"))

"""Runs on this machine, without a server, by the program that SKILLBOX_BIN names."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from skillbox.local import LocalError, ProgramNotFoundError, Sandbox, find_program, validate_skill

from .conftest import ROOT, _required

SKILLS = ROOT / "examples" / "skills"


@pytest.fixture(autouse=True)
def _program():
    _required("SKILLBOX_BIN")


@pytest.fixture
def skill(tmp_path):
    """Writes a skill with one script and returns a sandbox for it."""

    def write(code, **settings):
        directory = tmp_path / "probe"
        directory.mkdir(exist_ok=True)
        (directory / "SKILL.md").write_text("---\nname: probe\ndescription: A skill for tests.\n---\n\nText.\n")
        (directory / "probe.py").write_text(code)
        return Sandbox(directory, **settings)

    return write


def test_an_entrypoint_gets_its_input_and_returns_its_output():
    result = Sandbox(SKILLS / "word-counter").run(input={"text": "one two two"})
    assert (result.ok, result.exit_code, result.output["words"]) == (True, 0, 3)
    assert (result.skill_name, result.script, result.network_allowed) == ("word-counter", "main.py", False)
    assert result.digest.startswith("sha256:")
    assert 0 < result.duration < 60


def test_a_script_gets_arguments_stdin_and_variables(skill):
    code = "import os, sys; print(sys.argv[1:], sys.stdin.read(), os.environ['A'], os.environ['B'])"
    sandbox = skill(code, env={"A": "1", "B": "2"})
    result = sandbox.run("probe.py", ["--flag", "ä b"], stdin="text ü", env={"B": "3"})
    assert result.stdout == "['--flag', 'ä b'] text ü 1 3\n"
    assert sandbox.run("probe.py", stdin=b"bytes").stdout == "[] bytes 1 2\n"


def test_input_and_stdin_together_may_be_large(skill):
    code = "import json, os, sys; print(len(json.load(open('/sandbox/input.json'))), len(sys.stdin.read()))"
    result = skill(code).run("probe.py", input="x" * 300_000, stdin="y" * 300_000)
    assert (result.stdout, result.stderr) == ("300000 300000\n", "")


def test_a_failure_is_a_result_with_both_streams(skill):
    # Code 2 is also the program's own code for "nothing ran".
    result = skill("import sys; print('out'); print('err', file=sys.stderr); sys.exit(2)").run("probe.py")
    assert (result.ok, result.exit_code, result.stdout, result.stderr) == (False, 2, "out\n", "err\n")
    assert (result.timed_out, result.outcome) == (False, "exited")


def test_a_timeout_stops_the_script(skill):
    result = skill("import time; print('start', flush=True); time.sleep(60)", timeout=1.5).run("probe.py")
    assert (result.timed_out, result.status, result.stdout) == (True, "timeout", "start\n")
    assert 1.4 < result.duration < 20


def test_memory_is_limited(skill):
    sandbox = skill("print(len(bytearray(300 << 20)))", memory=64 << 20)
    assert not sandbox.run("probe.py").ok
    assert sandbox.run("probe.py", memory="64Mi").outcome in ("out_of_memory", "exited")


def test_there_is_no_network(skill):
    code = "import socket; socket.create_connection(('192.0.2.1', 80), 5)"
    result = skill(code).run("probe.py")
    assert (result.exit_code, result.network_allowed) == (1, False)
    assert "unreachable" in result.stderr


def test_files_are_downloaded(tmp_path):
    points = {"title": "Sales", "points": [{"label": "Q1", "value": 3}]}
    result = Sandbox(SKILLS / "svg-chart").run(input=points, download=tmp_path / "files")
    assert [file["name"] for file in result.files] == ["chart.svg"]
    assert (tmp_path / "files" / "chart.svg").stat().st_size == result.files[0]["size_bytes"]


def test_a_line_of_a_log_has_the_facts_and_not_the_content(skill):
    line = skill("print('secret')").run("probe.py").to_jsonl()
    assert line.endswith("}\n")
    assert line.count("\n") == 1
    record = json.loads(line)
    assert (record["exit_code"], record["timed_out"], record["outcome"]) == (0, False, "exited")
    assert (record["skill_name"], record["network_allowed"]) == ("probe", False)
    assert "secret" not in line


def test_a_run_that_never_began_is_an_error(skill):
    with pytest.raises(LocalError, match=r'no script "missing\.py"'):
        skill("pass").run("missing.py")
    with pytest.raises(LocalError, match=r"no SKILL\.md"):
        Sandbox(ROOT / "docs").run()
    with pytest.raises(ValueError, match="positive"):
        skill("pass", timeout=0).run("probe.py")


def test_several_threads_share_a_sandbox(skill):
    sandbox = skill("import sys; print(sys.argv[1])")
    found = {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: sandbox.run("probe.py", [str(n)]).stdout}))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: f"{n}\n" for n in range(4)}


def test_an_interrupt_ends_the_run(skill):
    sandbox = skill("import time; time.sleep(60)")
    code = f"from skillbox.local import Sandbox; Sandbox({os.fspath(sandbox.skill)!r}).run('probe.py')"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert b"KeyboardInterrupt" in err
    assert process.returncode != 0


def test_a_valid_skill_is_valid():
    validation = validate_skill(SKILLS / "word-counter")
    assert (validation.valid, validation.name, validation.findings) == (True, "word-counter", [])


def test_an_invalid_skill_has_findings(tmp_path):
    validation = validate_skill(tmp_path)
    assert (validation.valid, validation.findings[0].code) == (False, "no_skill_file")
    assert "SKILL.md" in validation.message


def test_warnings_count_only_when_strict(skill):
    directory = skill("pass").skill
    (directory / "SKILL.md").write_text("---\nname: probe\ndescription: A skill.\nunknown-key: 1\n---\n\nText.\n")
    assert validate_skill(directory).valid
    assert validate_skill(directory).findings
    assert not validate_skill(directory, strict=True).valid


def test_the_program_is_found(monkeypatch, tmp_path):
    assert find_program() == os.environ["SKILLBOX_BIN"]
    monkeypatch.delenv("SKILLBOX_BIN")
    program = tmp_path / "skillbox"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program() == str(program)
    program.unlink()
    with pytest.raises(ProgramNotFoundError, match="SKILLBOX_BIN"):
        find_program()
    with pytest.raises(ProgramNotFoundError, match="cannot be started"):
        validate_skill(SKILLS / "word-counter", program=program)

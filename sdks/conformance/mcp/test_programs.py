"""`skillbox mcp` as a program: how it ends."""

import json
import subprocess
import uuid

import pytest

from support import processes, server


@pytest.fixture
def program():
    """The program in the middle of a run, spoken to by hand; and the process of that run."""
    how, word = server.here(), uuid.uuid4().hex
    with subprocess.Popen(
        [how["command"], *how["args"]],
        env=how["env"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as started:
        say(
            started,
            {
                "id": 1,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "raw", "version": "1"},
                },
            },
        )
        assert "result" in read_message(started)
        say(started, {"method": "notifications/initialized"})
        arguments = {"skill": "workbench", "script": "scripts/wait.py", "args": [word]}
        say(
            started,
            {
                "id": 2,
                "method": "tools/call",
                "params": {"name": "run_skill_script", "arguments": arguments, "_meta": {"progressToken": "t"}},
            },
        )
        assert read_message(started)["params"]["message"] == "wäiting"
        yield started, processes.find(word)
        started.kill()


def say(program, message):
    program.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    program.stdin.flush()


def read_message(program):
    return json.loads(program.stdout.readline())


def test_the_end_of_its_input_ends_the_run_and_the_program(program):
    started, process = program
    started.stdin.close()
    assert process.ends_within(10), "the script still runs"
    assert started.wait(timeout=10) == 0


def test_a_signal_ends_the_run_and_the_program(program):
    started, process = program
    started.terminate()
    assert process.ends_within(10), "the script still runs"
    assert started.wait(timeout=10) == 0


def test_a_killed_program_leaves_nothing_running(program):
    started, process = program
    started.kill()
    assert process.ends_within(10), "the script still runs"

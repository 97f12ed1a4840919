"""Runs of scripts: what comes out, how they fail, and that nobody is left running."""

import uuid

from support import processes
from support.clients import text_of


def test_a_script_gets_arguments_and_standard_input(connection):
    result = connection.run("tell.py", args=["a", "b c", "ü"], stdin="from stdin, 世界\n")
    assert not result.get("isError")
    structured = result["structuredContent"]
    assert structured["exit_code"] == 0
    assert structured["status"] == "success"
    assert structured["stdout"] == "a|b c|ü\nfrom stdin, 世界\n"
    assert structured["stderr"] == "that was all, høy\n"
    assert "a|b c|ü\nfrom stdin, 世界\n" in text_of(result)


def test_calls_at_the_same_time_are_not_mixed_up(connection):
    running = {word: connection.begin_run("tell.py", args=[word], stdin=word) for word in "abcdef"}
    said = {word: doing.result()["structuredContent"]["stdout"] for word, doing in running.items()}
    assert said == {word: f"{word}\n{word}" for word in "abcdef"}


def test_a_run_is_an_execution_of_the_server(connection, transport):
    structured = connection.run("tell.py", args=["recorded"])["structuredContent"]
    assert (structured["skill"], structured["version"]) == ("workbench", "1.0.0")
    if transport.is_served:
        recorded = transport.tenant.api.get_execution(structured["execution_id"])
        assert (recorded.skill_name, recorded.status) == ("workbench", "success")
        assert structured["digest"] == recorded.digest


def test_a_null_is_an_input_too(connection):
    given = connection.call("run_skill_script", skill="workbench", input=None)["structuredContent"]["output"]
    absent = connection.call("run_skill_script", skill="workbench")["structuredContent"]["output"]
    assert (given["input"], absent["input"]) == (None, {})


def test_a_script_that_fails_says_why(connection):
    result = connection.run("tell.py", env={"CODE": "3"}, stdin="before the end\n")
    assert result["isError"]
    structured = result["structuredContent"]
    assert (structured["exit_code"], structured["status"]) == (3, "failed")
    assert "code 3" in text_of(result)
    assert "that was all, høy" in text_of(result)


def test_a_script_that_is_not_there_is_an_error(connection):
    result = connection.run("nothing.py")
    assert result["isError"]
    assert "scripts/nothing.py" in text_of(result)


def test_a_script_that_takes_too_long_is_stopped(connection):
    # It may end before the script has said anything, so only the end is looked at.
    result = connection.run("wait.py", timeout="400ms")
    assert result["isError"]
    assert result["structuredContent"]["status"] == "timeout"


def test_progress_arrives_while_it_runs_and_cancelling_ends_it(connection, transport):
    word = uuid.uuid4().hex
    running = connection.begin_run("wait.py", args=[word])
    # The script waits for longer than a client does, so this is not its end.
    news = running.next_progress()
    assert (news["progress"], news["message"]) == (1, "wäiting")
    process = processes.find(word)
    executing = running_executions(transport)
    # One run does not keep others from being answered.
    assert connection.call("list_skills")["structuredContent"]["skills"]

    connection.cancel(running)

    assert process.ends_within(10), "the script still runs"
    for execution in executing:
        assert transport.tenant.api.wait(execution, timeout=10).status == "cancelled"


def test_nobody_runs_for_a_client_that_went_away(client, transport):
    word = uuid.uuid4().hex
    opened = client.connect(transport.how())
    running = opened.begin_run("wait.py", args=[word])
    running.next_progress()
    process = processes.find(word)
    executing = running_executions(transport)

    opened.close()

    assert process.ends_within(10), "the script still runs"
    for execution in executing:
        assert transport.tenant.api.wait(execution, timeout=10).status == "cancelled"


def running_executions(transport):
    """The one that runs, where there is a server to ask."""
    if not transport.is_served:
        return []
    found = [row.execution_id for row in transport.tenant.api.iter_executions(status="running")]
    assert len(found) == 1, found
    return found

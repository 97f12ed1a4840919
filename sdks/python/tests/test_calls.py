"""What is sent, without a network."""

import json

import pytest

from skillbox import NULL, APIError, Client, RateLimitError
from skillbox._call import get, next_cursor, nothing, path_of
from skillbox._failures import connect_failed, connection_lost, timed_out
from skillbox._retry import retry_delay
from skillbox._run import run_call


def body(**given):
    return json.loads(run_call("s", **given).body.data)


def test_only_what_was_given_is_sent():
    assert body() == {"skill": "s"}
    assert body(input=NULL) == {"skill": "s", "input": None}
    assert body(input=0, stdin="", args=[], timeout=1.5) == {"skill": "s", "input": 0, "stdin": "", "timeout": "1500ms"}
    assert body(timeout="2m", mode="async") == {"skill": "s", "timeout": "2m", "mode": "async"}


def test_what_is_not_json_is_refused_before_it_is_sent():
    with pytest.raises(ValueError, match="JSON"):
        run_call("s", input=float("nan"))
    with pytest.raises(TypeError):
        run_call("s", input=object())


def test_a_segment_cannot_reach_another_route():
    assert path_of("v1", "skills", "../keys?x#y", "a b") == "/v1/skills/..%2Fkeys%3Fx%23y/a%20b"
    for segment in ("", ".", ".."):
        with pytest.raises(ValueError, match="URL"):
            path_of("v1", "skills", segment)


def test_addresses_people_type_are_understood():
    assert Client("localhost:8080").base_url == "http://localhost:8080"
    assert Client(" https://box.example.com/skillbox/ ").base_url == "https://box.example.com/skillbox"
    for address in ("", "ftp://host", "http://", "http://:80"):
        with pytest.raises(ValueError, match="server address"):
            Client(address)
    with pytest.raises(ValueError, match="api_key"):
        Client("http://h", "sk-\n")
    assert "sk-secret" not in repr(Client("http://h", "sk-secret"))


def test_the_next_cursor_is_found():
    for link in (
        '<http://h/v1/skills?limit=2&cursor=a%2Bb>; rel="next"',
        '</v1/skills?cursor=zz>; rel="prev", </v1/skills?cursor=a%2Bb>; rel="next"',
    ):
        assert next_cursor(link) == "a+b"
    assert next_cursor('</v1/skills?cursor=x>; rel="prev"') == next_cursor("") == ""


def test_only_what_is_harmless_is_sent_again():
    reading, doing = get(nothing, "x"), run_call("s").__class__("POST", "/x", nothing)
    lost, late = connection_lost("u", "r", "c"), timed_out("u", "r")
    assert retry_delay(reading, lost, 0, 3) is not None
    assert retry_delay(doing, lost, 0, 3) is None
    assert retry_delay(doing, connect_failed("u", "r", OSError()), 0, 3) is not None
    assert retry_delay(reading, late, 0, 3) is None
    assert retry_delay(reading, lost, 3, 3) is None
    assert retry_delay(reading, APIError(500), 0, 3) is None
    busy = RateLimitError(429)
    busy.retry_after = 7
    assert retry_delay(doing, busy, 0, 3) == 7
    busy.retry_after = 3600
    assert retry_delay(doing, busy, 0, 3) is None

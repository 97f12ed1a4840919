"""Code written against the earlier Python client runs unchanged."""

import pickle

import pytest

from skillbox import APIError, Client, FileInfo, NotFoundError, RunResult, Skill, SkillDetail


def test_a_client_is_made_as_before(monkeypatch):
    monkeypatch.setenv("SKILLBOX_API_KEY", "sk-from-the-environment")
    client = Client("http://localhost:8080/", tenant_id="acme", timeout=5.0)
    assert (client.base_url, client.api_key) == ("http://localhost:8080", "sk-from-the-environment")
    assert (client.tenant_id, client.timeout) == ("acme", 5.0)
    assert Client("http://h", "sk-given").api_key == "sk-given"


def test_results_have_their_defaults():
    assert RunResult("id", "success", {"a": 1}, "http://u").has_files
    empty = RunResult()
    assert (empty.error, empty.logs, empty.files_list, empty.has_files) == ("", "", [], False)
    assert Skill("n", "1", "d").description == "d"
    assert SkillDetail(name="n").resources == {}
    assert FileInfo().id == ""


def test_every_failure_is_an_api_error(live):
    with pytest.raises(APIError) as refused:
        live.get_execution("no-such-id")
    assert (refused.value.status_code, refused.value.error_code) == (404, "not_found")
    assert "skillbox: 404 not_found: " in str(refused.value)
    with pytest.raises(APIError) as unreachable:
        Client("http://127.0.0.1:1", retries=0).health()
    assert unreachable.value.status_code == 0
    assert str(APIError(418)) == "skillbox: 418"


def test_an_error_survives_a_pickle(live):
    with pytest.raises(NotFoundError) as refused:
        live.get_skill("no-such-skill")
    copy = pickle.loads(pickle.dumps(refused.value))
    assert (type(copy), str(copy), copy.request_id) == (NotFoundError, str(refused.value), refused.value.request_id)


def test_a_zip_on_disk_is_registered(live, tmp_path):
    path = live.download_skill("word-counter", tmp_path / "word-counter.zip")
    live.register_skill(str(path))
    with pytest.raises(FileNotFoundError):
        live.register_skill(str(tmp_path / "nothing.zip"))


def test_files_of_a_run_without_files_are_nothing(live, tmp_path):
    live.download_files(RunResult(), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()

"""Code written against the earlier Python client runs unchanged: its keywords, attributes and defaults."""

import inspect
import pickle

import pytest

from skillbox import APIError, AsyncClient, Client, FileInfo, NotFoundError, RunResult, Skill, SkillDetail


def test_a_client_is_made_as_before(monkeypatch):
    monkeypatch.setenv("SKILLBOX_API_KEY", "sk-from-the-environment")
    client = Client(base_url="http://localhost:8080/", tenant_id="acme", timeout=5.0)
    assert (client.base_url, client.api_key) == ("http://localhost:8080", "sk-from-the-environment")
    assert (client.tenant_id, client.timeout) == ("acme", 5.0)
    assert Client("http://h", "sk-given").api_key == "sk-given"
    assert Client(base_url="http://h", api_key="sk-given").api_key == "sk-given"


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_is_changed_as_before(kind, monkeypatch):
    monkeypatch.setenv("SKILLBOX_API_KEY", "sk-from-the-environment")
    client = kind("http://first", "sk-first")
    client.base_url = "http://second/"
    client.api_key = "sk-second"
    client.tenant_id = "acme"
    client.timeout = 2.5
    assert (client.base_url, client.api_key) == ("http://second", "sk-second")
    assert (client.tenant_id, client.timeout) == ("acme", 2.5)
    client.api_key, client.timeout = "", None
    assert (client.api_key, client.timeout) == ("", None)
    with pytest.raises(ValueError, match="api_key"):
        client.api_key = "sk-\n"
    with pytest.raises(ValueError, match="server address"):
        client.base_url = "ftp://host"


def test_a_changed_client_sends_what_it_was_changed_to(live, tenant):
    client = Client("http://127.0.0.1:1", "sk-wrong", retries=0)
    client.base_url, client.api_key = live.base_url, live.api_key
    assert client.list_skills()
    client.tenant_id = tenant.tenant_id
    assert client.list_skills() == []


def test_results_have_their_defaults():
    assert RunResult("id", "success", {"a": 1}, "http://u").has_files
    empty = RunResult()
    assert (empty.error, empty.logs, empty.files_list, empty.has_files) == ("", "", [], False)
    assert Skill("n", "1", "d").description == "d"
    assert SkillDetail(name="n").resources == {}
    assert (FileInfo().id, FileInfo().s3_key, FileInfo().parent_id) == ("", "", None)
    assert FileInfo(s3_key="k", parent_id="p").s3_key == "k"
    assert FileInfo.decode({"id": "f", "s3_key": "k"}).s3_key == "k"


def test_every_failure_is_an_api_error(live):
    with pytest.raises(APIError) as refused:
        live.get_execution(execution_id="no-such-id")
    assert (refused.value.status_code, refused.value.error_code) == (404, "not_found")
    assert "skillbox: 404 not_found: " in str(refused.value)
    with pytest.raises(APIError) as unreachable:
        Client("http://127.0.0.1:1", retries=0).health()
    assert unreachable.value.status_code == 0
    assert str(APIError(418)) == "skillbox: 418"
    assert str(APIError(status_code=418, error_code="teapot", message="Short.")) == "skillbox: 418 teapot: Short."


def test_an_error_survives_a_pickle(live):
    with pytest.raises(NotFoundError) as refused:
        live.get_skill("no-such-skill")
    copy = pickle.loads(pickle.dumps(refused.value))
    assert (type(copy), str(copy), copy.request_id) == (NotFoundError, str(refused.value), refused.value.request_id)


def test_a_zip_on_disk_is_registered(live, tmp_path):
    path = live.download_skill("word-counter", tmp_path / "word-counter.zip")
    live.register_skill(zip_path=str(path))
    live.register_skill(str(path))
    with pytest.raises(FileNotFoundError):
        live.register_skill(zip_path=str(tmp_path / "nothing.zip"))


def test_a_skill_is_read_and_run_by_keywords(live):
    assert live.get_skill(name="word-counter", version="latest").name == "word-counter"
    result = live.run(skill="word-counter", version="", input={"text": "one two"}, env={"A": "b"})
    assert (result.status, result.output["words"]) == ("success", 2)
    assert live.get_execution_logs(execution_id=result.execution_id) == result.logs


def test_a_file_is_changed_by_keywords(live, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("one")
    first = live.upload_file(str(path))
    assert first.parent_id is None
    path.write_text("two!")
    second = live.update_file(file_id=first.id, file_path=str(path))
    assert (second.parent_id, second.size_bytes) == (first.id, 4)
    live.delete_file(file_id=first.id)


@pytest.mark.parametrize("name", ["register_skill", "update_file"])
def test_both_clients_have_the_same_keywords(name):
    kinds = (Client, AsyncClient)
    assert len({tuple(inspect.signature(getattr(kind, name)).parameters) for kind in kinds}) == 1


def test_files_of_a_run_without_files_are_nothing(live, tmp_path):
    live.download_files(result=RunResult(), dest_dir=str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()

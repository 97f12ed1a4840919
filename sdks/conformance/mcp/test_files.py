"""The files that runs leave: links that the protocol reads, and where else they are."""

from urllib.parse import unquote, urlsplit
from urllib.request import urlopen

import pytest

from support import server
from support.clients import ClientError, bytes_of

FILES = {"Grüße 世界 🦀.txt": "Grüße, 世界, 🦀\n".encode(), "deep/a%20b.bin": bytes(range(256))}


def links_of(result):
    return {block["name"]: block for block in result["content"] if block["type"] == "resource_link"}


def read(connection, uri):
    (contents,) = connection.do("read_resource", uri=uri)["contents"]
    return bytes_of(contents)


def test_files_are_links_that_can_be_read(connection):
    result = connection.run("files.py")
    links = links_of(result)
    assert {name: read(connection, link["uri"]) for name, link in links.items()} == FILES
    assert {name: link["size"] for name, link in links.items()} == {name: len(data) for name, data in FILES.items()}
    listed = {file["name"]: (file["uri"], file["size_bytes"]) for file in result["structuredContent"]["files"]}
    assert listed == {name: (link["uri"], link["size"]) for name, link in links.items()}


def test_a_file_that_nobody_left_is_an_error(connection):
    (uri, *_) = (link["uri"] for link in links_of(connection.run("files.py")).values())
    execution = uri.removeprefix("execution://").split("/")[0]
    for missing in (
        f"execution://{execution}/missing.txt",
        f"execution://{execution}/../../../etc/passwd",
        "execution://0199b7f5-0000-7000-8000-000000000000/deep/a%2520b.bin",
        "execution://..%2F..%2Fetc/passwd",
    ):
        with pytest.raises(ClientError) as error:
            connection.do("read_resource", uri=missing)
        assert error.value.code in (-32002, -32602)


def test_a_server_gives_addresses_that_need_no_key(connect, served):
    result = connect(served.how()).run("files.py")
    assert {file["name"]: fetched(file["url"]) for file in result["structuredContent"]["files"]} == FILES


def test_files_are_nobody_elses(connect, served, other_tenant):
    links = links_of(connect(served.how()).run("files.py"))
    stranger = connect(served.with_key(other_tenant.key))
    for link in links.values():
        with pytest.raises(ClientError) as error:
            stranger.do("read_resource", uri=link["uri"])
        assert error.value.code in (-32002, -32602)


@pytest.mark.parametrize("client", ["python_2"], indirect=True)
def test_files_are_saved_to_the_requested_directory(connect, tmp_path):
    result = connect(server.here(server.SKILLS, "--files", str(tmp_path))).run("files.py")
    places = {file["name"]: unquote(urlsplit(file["url"]).path) for file in result["structuredContent"]["files"]}
    assert all(place.startswith(str(tmp_path)) for place in places.values())
    assert {file["name"]: fetched(file["url"]) for file in result["structuredContent"]["files"]} == FILES


def fetched(url):
    """As a program does that holds nothing but the address."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        with open(unquote(parts.path), "rb") as file:
            return file.read()
    with urlopen(url, timeout=10) as answer:
        return answer.read()

"""Skills as resources, and the skills extension."""

import hashlib
import uuid

import pytest

from conftest import Transport
from support.clients import ClientError, bytes_of
from support.server import Tenant
from support.skills import files_of, write_skill

SKILLS = ("adder", "workbench")


def uri_of(skill, path="SKILL.md"):
    return f"skill://{skill}/{path}"


def test_every_skill_is_a_resource(connection):
    resources = {resource["uri"]: resource for resource in connection.do("list_resources")["resources"]}
    assert sorted(resources) == [uri_of(skill) for skill in SKILLS]
    assert resources[uri_of("workbench")]["name"] == "workbench"
    assert "世界" in resources[uri_of("workbench")]["description"]
    assert resources[uri_of("workbench")]["mimeType"] == "text/markdown"


def test_other_files_have_a_template(connection):
    templates = connection.do("list_resource_templates")["resourceTemplates"]
    assert "skill://{skill}/{+path}" in [template["uriTemplate"] for template in templates]


def test_resources_are_read_as_they_are(connection):
    for entry in connection.do("request", method="skills/list", params={})["skills"]:
        for resource in entry["resources"]:
            (contents,) = connection.do("read_resource", uri=resource["uri"])["contents"]
            assert digest_of(bytes_of(contents)) == resource["digest"], resource["uri"]


@pytest.mark.parametrize(
    "uri",
    [
        "skill://workbench/missing.md",
        "skill://missing/SKILL.md",
        "skill://workbench/../adder/main.py",
        "file:///etc/passwd",
    ],
)
def test_a_resource_that_is_not_there_is_an_error(connection, uri):
    with pytest.raises(ClientError) as error:
        connection.do("read_resource", uri=uri)
    # The older protocols have a code of their own for it.
    assert error.value.code in (-32002, -32602)


def test_the_extension_lists_skills_with_the_digest_of_every_file(connection):
    listed = connection.do("request", method="skills/list", params={})
    assert "nextCursor" not in listed
    assert [entry["uri"] for entry in listed["skills"]] == [uri_of(skill) for skill in SKILLS]
    for entry, skill in zip(listed["skills"], SKILLS, strict=True):
        real = {digest_of(data): len(data) for data in files_of(skill).values()}
        assert {resource["digest"]: resource["size"] for resource in entry["resources"]} == real
    assert listed["skills"][1]["frontmatter"]["metadata"] == {"author": "Jürgen"}


def test_the_extension_gets_one_skill(connection):
    (_, listed) = connection.do("request", method="skills/list", params={})["skills"]
    got = connection.do("request", method="skills/get", params={"uri": uri_of("workbench")})
    assert got["skill"] == listed
    for uri in (uri_of("missing"), uri_of("workbench", "scripts/tell.py"), "no uri"):
        with pytest.raises(ClientError) as error:
            connection.do("request", method="skills/get", params={"uri": uri})
        assert error.value.code == -32602


@pytest.mark.parametrize("client", ["typescript_2"], indirect=True)
def test_the_official_client_of_the_extension_verifies_every_file(connection):
    verified = connection.do("verify_skills")
    assert len(verified) == sum(len(files_of(skill)) for skill in SKILLS)
    assert set(verified.values()) == {True}


#: Skills that Skillbox takes and the extension does not: their names, or what their metadata maps to.
OUTSIDE = {"Odd_Name.v2": "", "nested": "metadata:\n  tags: [a, b]\n"}
#: Values that dialects of YAML read differently.
TRICKY = """\
truths: [yes, no, on, off, true, Null, ~]
numbers: [1.0, 0o17, 0x1f, 017, 1e3, .5, +3, 1_000, 12:30]
date: 2026-01-01
quoted: "1.0"
folded: >-
  one
  two

  three
"""


@pytest.fixture(scope="session")
def odd(transport, tmp_path_factory):
    """The transport to a place with odd skills."""
    directory = tmp_path_factory.mktemp("odd")
    places = [write_skill(directory, name, more) for name, more in {**OUTSIDE, "tricky": TRICKY}.items()]
    tenant = Tenant(f"mcp-{uuid.uuid4().hex[:8]}")
    tenant.publish(*places)
    return Transport(transport.name, tenant, directory)


@pytest.mark.parametrize("client", ["typescript_2"], indirect=True)
def test_odd_skills_do_not_spoil_the_extension_for_others(connect, odd):
    opened = connect(odd.how())
    listed = [skill["name"] for skill in opened.call("list_skills")["structuredContent"]["skills"]]
    assert sorted(listed) == sorted([*OUTSIDE, "tricky"])
    verified = opened.do("verify_skills")
    assert verified == {uri_of("tricky", path): True for path in ("SKILL.md", "main.py")}


def digest_of(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"

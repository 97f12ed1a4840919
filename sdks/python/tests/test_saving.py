"""Archives from strangers: nothing is written outside, and nothing half."""

import io
import tarfile

import pytest

from skillbox import UnsafePathError
from skillbox._packing import pack
from skillbox._saving import unpack, whole_file


def archive(*names, kind=tarfile.REGTYPE):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.type, entry.size, entry.linkname = kind, 2 if kind == tarfile.REGTYPE else 0, "../.."
            tar.addfile(entry, io.BytesIO(b"hi"))
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("name", ["../a", "a/../../b", "/etc/x", "a//b", "./a", "a/.", "..", "a\n", "x\x7f"])
def test_a_name_that_is_not_a_plain_relative_path_is_refused(name, tmp_path):
    with pytest.raises(UnsafePathError):
        unpack(archive(name), tmp_path / "in")
    assert list((tmp_path / "in").iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_what_is_not_a_file_is_refused(kind, tmp_path):
    with pytest.raises(UnsafePathError):
        unpack(archive("a", kind=kind), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_was_there_before_is_not_followed(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "door").symlink_to(outside)
    with pytest.raises(UnsafePathError):
        unpack(archive("door/a"), inside)
    (outside / "precious").write_text("keep")
    (inside / "file").symlink_to(outside / "precious")
    unpack(archive("file"), inside)
    assert (outside / "precious").read_text() == "keep"
    assert (inside / "file").read_text() == "hi"


def test_ordinary_and_odd_names_arrive(tmp_path):
    names = ["a.txt", "deep/er/b", "Grüße 👩‍🔬.txt", "back\\slash", "12:30"]
    assert [path.relative_to(tmp_path.resolve()).as_posix() for path in unpack(archive(*names), tmp_path)] == names


def test_a_file_is_whole_or_not_there(tmp_path):
    with pytest.raises(RuntimeError), whole_file(tmp_path / "a") as file:
        file.write(b"half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_packing_refuses_links_and_is_repeatable(tmp_path):
    (tmp_path / "SKILL.md").write_text("x")
    (tmp_path / ".DS_Store").write_text("junk")
    assert pack(tmp_path) == pack(tmp_path)
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(ValueError, match="link is a link"):
        pack(tmp_path)

"""Archives from strangers: nothing is written outside, and nothing half."""

import io
import os
import tarfile
import zipfile

import pytest

from skillbox import UnsafePathError
from skillbox._packing import pack
from skillbox._saving import atomic_file, unpack


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
    with pytest.raises(RuntimeError), atomic_file(tmp_path / "a") as file:
        file.write(b"half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("swapped", ["data", "inner/data"])
def test_a_link_swapped_in_while_packing_is_not_followed(tmp_path, monkeypatch, swapped):
    """The exchange happens at the worst moment: after everything was looked at, right before the file is opened."""
    skill, secret = tmp_path / "skill", tmp_path / "secret"
    (skill / "inner").mkdir(parents=True)
    secret.mkdir()
    (skill / "SKILL.md").write_text("x")
    (skill / swapped).write_text("own")
    (secret / "data").write_text("secret")
    real, by_path = os.open, []

    def swap_then_open(name, *arguments, **further):
        if name == "data" and not by_path:
            if swapped == "data":
                (skill / "data").unlink()
                (skill / "data").symlink_to(secret / "data")
            else:
                (skill / "inner").rename(tmp_path / "moved")
                (skill / "inner").symlink_to(secret)
            # The control: the same path leads to the secret now.
            by_path.append((skill / swapped).read_text())
        return real(name, *arguments, **further)

    monkeypatch.setattr(os, "open", swap_then_open)
    if swapped == "data":
        with pytest.raises(ValueError, match="data is a link"):
            pack(skill)
    else:
        with zipfile.ZipFile(io.BytesIO(pack(skill))) as packed:
            assert packed.read("inner/data") == b"own"
    assert by_path == ["secret"]


def test_packing_refuses_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is not a regular file"):
        pack(tmp_path)
    (tmp_path / "pipe").unlink()
    (tmp_path / "door").symlink_to("/etc")
    with pytest.raises(ValueError, match="door is a link"):
        pack(tmp_path)


def test_packing_refuses_links_and_is_repeatable(tmp_path):
    (tmp_path / "SKILL.md").write_text("x")
    (tmp_path / ".DS_Store").write_text("junk")
    assert pack(tmp_path) == pack(tmp_path)
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(ValueError, match="link is a link"):
        pack(tmp_path)

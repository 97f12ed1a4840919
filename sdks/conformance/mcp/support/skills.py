"""The skills that the tests publish: those of this directory, and small ones made for one test."""

from pathlib import Path

SKILLS = Path(__file__).parents[1] / "skills"


def files_of(skill):
    """The bytes of each of its files, by path."""
    root = SKILLS / skill
    paths = [path for path in root.rglob("*") if path.is_file()]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def write_skill(directory, name, frontmatter=""):
    """Writes a small skill that runs."""
    place = directory / name
    place.mkdir()
    header = f"---\nname: {name}\ndescription: Made by a test.\nlang: python\nentrypoint: main.py\n{frontmatter}---\n"
    (place / "SKILL.md").write_text(f"{header}# {name}\n", encoding="utf-8")
    (place / "main.py").write_text(f"print('{name}')\n", encoding="utf-8")
    return place

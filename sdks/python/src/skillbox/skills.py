"""Skills: publishing, reading and removing them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from ._aio_http import AsyncSender
from ._call import Answer, BytesBody, Call, Page, document, get, nothing, page, path_of, query_of, rows, text
from ._forms import AnyPath
from ._http import Sender
from ._packing import skill_body
from ._paging import walk, walk_async
from ._saving import whole_file
from .models import PublishedSkill, Skill, SkillDetail, SkillFile, Validation


class Skills(Sender):
    """The part of `Client` that handles skills."""

    def register_skill(self, zip_path: AnyPath) -> PublishedSkill:
        """Publishes a skill: a zip, or a directory with a SKILL.md. Publishing the same content again does nothing."""
        return self._send(_publish(skill_body(zip_path)))

    def validate_skill(self, path: AnyPath, *, profile: str = "") -> Validation:
        """What `register_skill` would be told, with nothing stored.

        `profile` is whose rules count: ``default``, ``strict`` (the open specification), ``anthropic`` or ``openai``.
        """
        return self._send(_validate(skill_body(path), profile))

    def list_skills(self) -> list[Skill]:
        """The newest version of every skill."""
        return list(self.iter_skills(page_size=200))

    def iter_skills(self, *, page_size: int = 50) -> Iterator[Skill]:
        """The newest version of every skill, fetched page by page as you go."""
        return walk(self, lambda cursor: _list(page_size, cursor))

    def skills_prompt(self) -> str:
        """The skills as text for a model's system prompt."""
        return self._send(get(text, "v1", "skills", "prompt"))

    def get_skill(self, name: str, version: str = "latest") -> SkillDetail:
        """One version of a skill with its instructions, scripts and schemas."""
        return self._send(get(document(SkillDetail), "v1", "skills", name, version))

    def list_skill_versions(self, name: str) -> list[Skill]:
        """All versions of a skill, newest upload first."""
        return self._send(get(rows(Skill), "v1", "skills", name, "versions"))

    def delete_skill(self, name: str, version: str) -> None:
        """Removes one version of a skill. Its executions stay."""
        self._send(Call("DELETE", path_of("v1", "skills", name, version), nothing))

    def list_skill_files(self, name: str, version: str = "latest") -> list[SkillFile]:
        """The files of a skill."""
        return self._send(get(rows(SkillFile), "v1", "skills", name, version, "files"))

    def read_skill_file(self, name: str, path: str, *, version: str = "latest") -> bytes:
        """The content of one file of a skill."""
        return self._send(get(_content, "v1", "skills", name, version, "files", *path.split("/")))

    def download_skill(self, name: str, dest_path: AnyPath, *, version: str = "latest") -> Path:
        """Saves a skill as the zip the server keeps; its SHA-256 is the skill's digest."""
        with whole_file(dest_path) as file:
            self._download(_zip(name, version), file)
        return Path(dest_path)


class AsyncSkills(AsyncSender):
    """The part of `AsyncClient` that handles skills."""

    async def register_skill(self, zip_path: AnyPath) -> PublishedSkill:
        """As `Client.register_skill`."""
        return await self._send(_publish(await asyncio.to_thread(skill_body, zip_path)))

    async def validate_skill(self, path: AnyPath, *, profile: str = "") -> Validation:
        """As `Client.validate_skill`."""
        return await self._send(_validate(await asyncio.to_thread(skill_body, path), profile))

    async def list_skills(self) -> list[Skill]:
        """As `Client.list_skills`."""
        return [skill async for skill in self.iter_skills(page_size=200)]

    def iter_skills(self, *, page_size: int = 50) -> AsyncIterator[Skill]:
        """As `Client.iter_skills`, for ``async for``."""
        return walk_async(self, lambda cursor: _list(page_size, cursor))

    async def skills_prompt(self) -> str:
        """As `Client.skills_prompt`."""
        return await self._send(get(text, "v1", "skills", "prompt"))

    async def get_skill(self, name: str, version: str = "latest") -> SkillDetail:
        """As `Client.get_skill`."""
        return await self._send(get(document(SkillDetail), "v1", "skills", name, version))

    async def list_skill_versions(self, name: str) -> list[Skill]:
        """As `Client.list_skill_versions`."""
        return await self._send(get(rows(Skill), "v1", "skills", name, "versions"))

    async def delete_skill(self, name: str, version: str) -> None:
        """As `Client.delete_skill`."""
        await self._send(Call("DELETE", path_of("v1", "skills", name, version), nothing))

    async def list_skill_files(self, name: str, version: str = "latest") -> list[SkillFile]:
        """As `Client.list_skill_files`."""
        return await self._send(get(rows(SkillFile), "v1", "skills", name, version, "files"))

    async def read_skill_file(self, name: str, path: str, *, version: str = "latest") -> bytes:
        """As `Client.read_skill_file`."""
        return await self._send(get(_content, "v1", "skills", name, version, "files", *path.split("/")))

    async def download_skill(self, name: str, dest_path: AnyPath, *, version: str = "latest") -> Path:
        """As `Client.download_skill`."""
        with whole_file(dest_path) as file:
            await self._download(_zip(name, version), file)
        return Path(dest_path)


def _publish(body: BytesBody) -> Call[PublishedSkill]:
    return Call("POST", path_of("v1", "skills"), document(PublishedSkill), body=body, repeatable=True, patient=True)


def _validate(body: BytesBody, profile: str) -> Call[Validation]:
    path, query = path_of("v1", "skills", "validate"), query_of(profile=profile)
    return Call("POST", path, document(Validation), query=query, body=body, repeatable=True, patient=True)


def _list(limit: int, cursor: str) -> Call[Page[Skill]]:
    return get(page(Skill), "v1", "skills", query=query_of(limit=limit, cursor=cursor))


def _zip(name: str, version: str) -> Call[None]:
    return Call("GET", path_of("v1", "skills", name, version, "content"), nothing, repeatable=True, patient=True)


def _content(answer: Answer) -> bytes:
    return answer.body

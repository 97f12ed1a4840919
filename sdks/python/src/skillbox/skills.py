"""Calls for skills: publishing, reading and deleting them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from ._aio_http import AsyncSender
from ._call import Answer, BytesBody, Call, Page, document, get, nothing, page, path_of, query_of, rows, text
from ._forms import AnyPath
from ._http import Sender
from ._packing import skill_body
from ._paging import iterate_pages, iterate_pages_async
from ._saving import atomic_file
from .models import PublishedSkill, Skill, SkillDetail, SkillFile, Validation


class Skills(Sender):
    """Methods of `Client` that manage skills."""

    def register_skill(self, zip_path: AnyPath) -> PublishedSkill:
        """Publishes a skill, a zip or a directory with a SKILL.md. Publishing identical content again has no effect."""
        return self._send(_publish(skill_body(zip_path)))

    def validate_skill(self, path: AnyPath, *, profile: str = "") -> Validation:
        """Validates a skill as `register_skill` would, without storing anything.

        `profile` selects the rules: ``default``, ``strict`` (the open specification), ``anthropic`` or ``openai``.
        """
        return self._send(_validate(skill_body(path), profile))

    def list_skills(self) -> list[Skill]:
        """Lists the newest version of every skill."""
        return list(self.iter_skills(page_size=200))

    def iter_skills(self, *, page_size: int = 50) -> Iterator[Skill]:
        """Iterates over the newest version of every skill, fetching pages lazily."""
        return iterate_pages(self, lambda cursor: _list(page_size, cursor))

    def skills_prompt(self) -> str:
        """Returns a description of the skills for a model's system prompt."""
        return self._send(get(text, "v1", "skills", "prompt"))

    def get_skill(self, name: str, version: str = "latest") -> SkillDetail:
        """Returns one version of a skill with its instructions, scripts and schemas."""
        return self._send(get(document(SkillDetail), "v1", "skills", name, version))

    def list_skill_versions(self, name: str) -> list[Skill]:
        """Lists all versions of a skill, newest upload first."""
        return self._send(get(rows(Skill), "v1", "skills", name, "versions"))

    def delete_skill(self, name: str, version: str) -> None:
        """Deletes one version of a skill. Its executions are kept."""
        self._send(Call("DELETE", path_of("v1", "skills", name, version), nothing))

    def list_skill_files(self, name: str, version: str = "latest") -> list[SkillFile]:
        """Lists the files of a skill."""
        return self._send(get(rows(SkillFile), "v1", "skills", name, version, "files"))

    def read_skill_file(self, name: str, path: str, *, version: str = "latest") -> bytes:
        """Returns the content of one file of a skill."""
        return self._send(get(_content, "v1", "skills", name, version, "files", *path.split("/")))

    def download_skill(self, name: str, dest_path: AnyPath, *, version: str = "latest") -> Path:
        """Downloads the canonical archive of a skill, a zip; its SHA-256 is the skill's digest."""
        with atomic_file(dest_path) as file:
            self._download(_zip(name, version), file)
        return Path(dest_path)


class AsyncSkills(AsyncSender):
    """Methods of `AsyncClient` that manage skills."""

    async def register_skill(self, zip_path: AnyPath) -> PublishedSkill:
        """See `Client.register_skill`."""
        return await self._send(_publish(await asyncio.to_thread(skill_body, zip_path)))

    async def validate_skill(self, path: AnyPath, *, profile: str = "") -> Validation:
        """See `Client.validate_skill`."""
        return await self._send(_validate(await asyncio.to_thread(skill_body, path), profile))

    async def list_skills(self) -> list[Skill]:
        """See `Client.list_skills`."""
        return [skill async for skill in self.iter_skills(page_size=200)]

    def iter_skills(self, *, page_size: int = 50) -> AsyncIterator[Skill]:
        """See `Client.iter_skills`; returns an async iterator."""
        return iterate_pages_async(self, lambda cursor: _list(page_size, cursor))

    async def skills_prompt(self) -> str:
        """See `Client.skills_prompt`."""
        return await self._send(get(text, "v1", "skills", "prompt"))

    async def get_skill(self, name: str, version: str = "latest") -> SkillDetail:
        """See `Client.get_skill`."""
        return await self._send(get(document(SkillDetail), "v1", "skills", name, version))

    async def list_skill_versions(self, name: str) -> list[Skill]:
        """See `Client.list_skill_versions`."""
        return await self._send(get(rows(Skill), "v1", "skills", name, "versions"))

    async def delete_skill(self, name: str, version: str) -> None:
        """See `Client.delete_skill`."""
        await self._send(Call("DELETE", path_of("v1", "skills", name, version), nothing))

    async def list_skill_files(self, name: str, version: str = "latest") -> list[SkillFile]:
        """See `Client.list_skill_files`."""
        return await self._send(get(rows(SkillFile), "v1", "skills", name, version, "files"))

    async def read_skill_file(self, name: str, path: str, *, version: str = "latest") -> bytes:
        """See `Client.read_skill_file`."""
        return await self._send(get(_content, "v1", "skills", name, version, "files", *path.split("/")))

    async def download_skill(self, name: str, dest_path: AnyPath, *, version: str = "latest") -> Path:
        """See `Client.download_skill`."""
        with atomic_file(dest_path) as file:
            await self._download(_zip(name, version), file)
        return Path(dest_path)


def _publish(body: BytesBody) -> Call[PublishedSkill]:
    return Call(
        "POST", path_of("v1", "skills"), document(PublishedSkill), body=body, repeatable=True, long_running=True
    )


def _validate(body: BytesBody, profile: str) -> Call[Validation]:
    path, query = path_of("v1", "skills", "validate"), query_of(profile=profile)
    return Call("POST", path, document(Validation), query=query, body=body, repeatable=True, long_running=True)


def _list(limit: int, cursor: str) -> Call[Page[Skill]]:
    return get(page(Skill), "v1", "skills", query=query_of(limit=limit, cursor=cursor))


def _zip(name: str, version: str) -> Call[None]:
    return Call("GET", path_of("v1", "skills", name, version, "content"), nothing, repeatable=True, long_running=True)


def _content(answer: Answer) -> bytes:
    return answer.body

"""Files: uploaded ones with their versions, and those that runs left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from ._aio_http import AsyncSender
from ._call import Call, Page, document, get, nothing, page, path_of, query_of, rows
from ._forms import AnyPath, FormBody
from ._http import Sender
from ._paging import walk, walk_async
from ._saving import whole_file
from .models import FileInfo


class Files(Sender):
    """The part of `Client` that handles files."""

    def upload_file(self, path: AnyPath, *, name: str = "", session_id: str = "") -> FileInfo:
        """Uploads a file, streamed. Given to `run` in `input_files`, its `id` places it in ``/sandbox/input/``."""
        return self._send(_upload(path, name, session_id))

    def list_files(
        self, *, session_id: str = "", execution_id: str = "", limit: int = 50, offset: int = 0
    ) -> list[FileInfo]:
        """One page of the files, newest first."""
        return self._send(_list(session_id, execution_id, limit, offset=offset)).items

    def iter_files(self, *, session_id: str = "", execution_id: str = "", page_size: int = 50) -> Iterator[FileInfo]:
        """All files, newest first, fetched page by page as you go."""
        return walk(self, lambda cursor: _list(session_id, execution_id, page_size, cursor=cursor))

    def get_file(self, file_id: str) -> FileInfo:
        """What is known of a file."""
        return self._send(get(document(FileInfo), "v1", "files", file_id))

    def download_file(self, file_id: str, dest_path: AnyPath) -> Path:
        """Saves a file's content, streamed, as `dest_path`."""
        with whole_file(dest_path) as file:
            self._download(_download(file_id), file)
        return Path(dest_path)

    def update_file(self, file_id: str, file_path: AnyPath) -> FileInfo:
        """Uploads a new version of a file."""
        return self._send(_update(file_id, file_path))

    def delete_file(self, file_id: str) -> None:
        """Removes a file; the first version takes the others along."""
        self._send(Call("DELETE", path_of("v1", "files", file_id), nothing))

    def list_file_versions(self, file_id: str) -> list[FileInfo]:
        """The versions of a file, newest first."""
        return self._send(get(rows(FileInfo), "v1", "files", file_id, "versions"))


class AsyncFiles(AsyncSender):
    """The part of `AsyncClient` that handles files."""

    async def upload_file(self, path: AnyPath, *, name: str = "", session_id: str = "") -> FileInfo:
        """As `Client.upload_file`."""
        return await self._send(_upload(path, name, session_id))

    async def list_files(
        self, *, session_id: str = "", execution_id: str = "", limit: int = 50, offset: int = 0
    ) -> list[FileInfo]:
        """As `Client.list_files`."""
        return (await self._send(_list(session_id, execution_id, limit, offset=offset))).items

    def iter_files(
        self, *, session_id: str = "", execution_id: str = "", page_size: int = 50
    ) -> AsyncIterator[FileInfo]:
        """As `Client.iter_files`, for ``async for``."""
        return walk_async(self, lambda cursor: _list(session_id, execution_id, page_size, cursor=cursor))

    async def get_file(self, file_id: str) -> FileInfo:
        """As `Client.get_file`."""
        return await self._send(get(document(FileInfo), "v1", "files", file_id))

    async def download_file(self, file_id: str, dest_path: AnyPath) -> Path:
        """As `Client.download_file`."""
        with whole_file(dest_path) as file:
            await self._download(_download(file_id), file)
        return Path(dest_path)

    async def update_file(self, file_id: str, file_path: AnyPath) -> FileInfo:
        """As `Client.update_file`."""
        return await self._send(_update(file_id, file_path))

    async def delete_file(self, file_id: str) -> None:
        """As `Client.delete_file`."""
        await self._send(Call("DELETE", path_of("v1", "files", file_id), nothing))

    async def list_file_versions(self, file_id: str) -> list[FileInfo]:
        """As `Client.list_file_versions`."""
        return await self._send(get(rows(FileInfo), "v1", "files", file_id, "versions"))


def _upload(path: AnyPath, name: str, session_id: str) -> Call[FileInfo]:
    body = FormBody.of(path, name=name, session_id=session_id)
    return Call("POST", path_of("v1", "files"), document(FileInfo), body=body, patient=True)


def _update(file_id: str, path: AnyPath) -> Call[FileInfo]:
    return Call("PUT", path_of("v1", "files", file_id), document(FileInfo), body=FormBody.of(path), patient=True)


def _list(session_id: str, execution_id: str, limit: int, *, offset: int = 0, cursor: str = "") -> Call[Page[FileInfo]]:
    query = query_of(
        session_id=session_id, execution_id=execution_id, limit=limit, offset=offset or None, cursor=cursor
    )
    return get(page(FileInfo), "v1", "files", query=query)


def _download(file_id: str) -> Call[None]:
    return Call("GET", path_of("v1", "files", file_id, "download"), nothing, repeatable=True, patient=True)

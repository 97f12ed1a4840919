"""Calls for files: uploads with their versions, and output files of runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from ._aio_http import AsyncSender
from ._call import Call, Page, document, get, nothing, page, path_of, query_of, rows
from ._forms import AnyPath, FormBody
from ._http import Sender
from ._paging import iterate_pages, iterate_pages_async
from ._saving import atomic_file
from .models import FileInfo


class Files(Sender):
    """Methods of `Client` that manage files."""

    def upload_file(self, path: AnyPath, *, name: str = "", session_id: str = "") -> FileInfo:
        """Uploads a file, streamed. With its `id` in `input_files`, a run finds it in ``/sandbox/input/``."""
        return self._send(_upload(path, name, session_id))

    def list_files(
        self, *, session_id: str = "", execution_id: str = "", limit: int = 50, offset: int = 0
    ) -> list[FileInfo]:
        """Returns one page of files, newest first."""
        return self._send(_list(session_id, execution_id, limit, offset=offset)).items

    def iter_files(self, *, session_id: str = "", execution_id: str = "", page_size: int = 50) -> Iterator[FileInfo]:
        """Iterates over all files, newest first, fetching pages lazily."""
        return iterate_pages(self, lambda cursor: _list(session_id, execution_id, page_size, cursor=cursor))

    def get_file(self, file_id: str) -> FileInfo:
        """Returns the metadata of a file."""
        return self._send(get(document(FileInfo), "v1", "files", file_id))

    def download_file(self, file_id: str, dest_path: AnyPath) -> Path:
        """Downloads a file to `dest_path`, streamed."""
        with atomic_file(dest_path) as file:
            self._download(_download(file_id), file)
        return Path(dest_path)

    def update_file(self, file_id: str, file_path: AnyPath) -> FileInfo:
        """Uploads a new version of a file."""
        return self._send(_update(file_id, file_path))

    def delete_file(self, file_id: str) -> None:
        """Deletes a file. Deleting the first version deletes all versions."""
        self._send(Call("DELETE", path_of("v1", "files", file_id), nothing))

    def list_file_versions(self, file_id: str) -> list[FileInfo]:
        """Lists the versions of a file, newest first."""
        return self._send(get(rows(FileInfo), "v1", "files", file_id, "versions"))


class AsyncFiles(AsyncSender):
    """Methods of `AsyncClient` that manage files."""

    async def upload_file(self, path: AnyPath, *, name: str = "", session_id: str = "") -> FileInfo:
        """See `Client.upload_file`."""
        return await self._send(_upload(path, name, session_id))

    async def list_files(
        self, *, session_id: str = "", execution_id: str = "", limit: int = 50, offset: int = 0
    ) -> list[FileInfo]:
        """See `Client.list_files`."""
        return (await self._send(_list(session_id, execution_id, limit, offset=offset))).items

    def iter_files(
        self, *, session_id: str = "", execution_id: str = "", page_size: int = 50
    ) -> AsyncIterator[FileInfo]:
        """See `Client.iter_files`; returns an async iterator."""
        return iterate_pages_async(self, lambda cursor: _list(session_id, execution_id, page_size, cursor=cursor))

    async def get_file(self, file_id: str) -> FileInfo:
        """See `Client.get_file`."""
        return await self._send(get(document(FileInfo), "v1", "files", file_id))

    async def download_file(self, file_id: str, dest_path: AnyPath) -> Path:
        """See `Client.download_file`."""
        with atomic_file(dest_path) as file:
            await self._download(_download(file_id), file)
        return Path(dest_path)

    async def update_file(self, file_id: str, file_path: AnyPath) -> FileInfo:
        """See `Client.update_file`."""
        return await self._send(_update(file_id, file_path))

    async def delete_file(self, file_id: str) -> None:
        """See `Client.delete_file`."""
        await self._send(Call("DELETE", path_of("v1", "files", file_id), nothing))

    async def list_file_versions(self, file_id: str) -> list[FileInfo]:
        """See `Client.list_file_versions`."""
        return await self._send(get(rows(FileInfo), "v1", "files", file_id, "versions"))


def _upload(path: AnyPath, name: str, session_id: str) -> Call[FileInfo]:
    body = FormBody.from_path(path, name=name, session_id=session_id)
    return Call("POST", path_of("v1", "files"), document(FileInfo), body=body, long_running=True)


def _update(file_id: str, path: AnyPath) -> Call[FileInfo]:
    return Call(
        "PUT", path_of("v1", "files", file_id), document(FileInfo), body=FormBody.from_path(path), long_running=True
    )


def _list(session_id: str, execution_id: str, limit: int, *, offset: int = 0, cursor: str = "") -> Call[Page[FileInfo]]:
    query = query_of(
        session_id=session_id, execution_id=execution_id, limit=limit, offset=offset or None, cursor=cursor
    )
    return get(page(FileInfo), "v1", "files", query=query)


def _download(file_id: str) -> Call[None]:
    return Call("GET", path_of("v1", "files", file_id, "download"), nothing, repeatable=True, long_running=True)

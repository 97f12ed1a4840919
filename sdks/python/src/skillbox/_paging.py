"""Lists that are longer than a page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Callable, TypeVar

from ._aio_http import AsyncSender
from ._call import Call, Page
from ._http import Sender

T = TypeVar("T")


def walk(sender: Sender, call: Callable[[str], Call[Page[T]]]) -> Iterator[T]:
    """All items of a list; `call` asks for the page at a cursor. Pages are fetched as they are needed."""
    cursor = ""
    while True:
        page = sender._send(call(cursor))
        yield from page.items
        if not page.cursor:
            return
        cursor = page.cursor


async def walk_async(sender: AsyncSender, call: Callable[[str], Call[Page[T]]]) -> AsyncIterator[T]:
    """As `walk`."""
    cursor = ""
    while True:
        page = await sender._send(call(cursor))
        for item in page.items:
            yield item
        if not page.cursor:
            return
        cursor = page.cursor

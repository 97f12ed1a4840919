"""Pagination of lists."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Callable, TypeVar

from ._aio_http import AsyncSender
from ._call import Call, Page
from ._http import Sender

T = TypeVar("T")


def iterate_pages(sender: Sender, call: Callable[[str], Call[Page[T]]]) -> Iterator[T]:
    """Yields all items of a list. `call` creates the call for the page at a cursor; pages are fetched lazily."""
    cursor = ""
    while True:
        page = sender._send(call(cursor))
        yield from page.items
        if not page.cursor:
            return
        cursor = page.cursor


async def iterate_pages_async(sender: AsyncSender, call: Callable[[str], Call[Page[T]]]) -> AsyncIterator[T]:
    """Asynchronous version of `iterate_pages`."""
    cursor = ""
    while True:
        page = await sender._send(call(cursor))
        for item in page.items:
            yield item
        if not page.cursor:
            return
        cursor = page.cursor

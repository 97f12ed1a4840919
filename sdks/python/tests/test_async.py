"""What only the asynchronous client promises: real concurrency, and cancellation that lets go at once."""

import asyncio
import contextlib

import skillbox


def test_runs_side_by_side(live_async):
    async def all_of_them():
        runs = [live_async.run("word-counter", input={"text": "w " * count}) for count in range(1, 9)]
        return [result.output["words"] for result in await asyncio.gather(*runs)]

    assert asyncio.run(all_of_them()) == list(range(1, 9))


def test_cancelling_closes_the_connection():
    async def scenario():
        asked, closed = asyncio.Event(), asyncio.Event()

        async def silent(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            asked.set()
            await reader.read()
            closed.set()
            writer.close()

        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            task = asyncio.create_task(skillbox.AsyncClient(f"http://127.0.0.1:{port}").health())
            await asked.wait()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert task.cancelled()
            await asyncio.wait_for(closed.wait(), 10)

    asyncio.run(scenario())


def test_a_stream_that_is_left_is_closed(live_async):
    async def scenario():
        started = await live_async.start("word-counter")
        events = live_async.events(started.execution_id)
        first = await events.__anext__()
        await events.aclose()
        rest = [event async for event in live_async.events(started.execution_id, after=first.id)]
        assert first.id not in {event.id for event in rest}
        assert isinstance(rest[-1], skillbox.ResultEvent)

    asyncio.run(scenario())

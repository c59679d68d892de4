"""Unread streams give up their place, and end after a time."""

import asyncio

import pytest

from mlxctl.engine import EngineClient, TokenStream
from mlxctl.engine.client.open_requests import OpenRequests
from mlxctl.engine.client.token_stream import ReadingRules
from mlxctl.engine.wire.reports import RowUpdate
from mlxctl.ir.errors import ClientTooSlow
from mlxctl.state.settings import EngineSettings
from tests.engine.harness import finish, running_engine, submit

PROMPT = range(20, 60)
NUM_TOKENS = 200


def settings(**values: float) -> EngineSettings:
    return EngineSettings(max_rows=1, max_unread_tokens=8, **values)  # type: ignore[arg-type]


async def wait_paused(client: EngineClient, number: int) -> None:
    async with asyncio.timeout(30):
        while (await client.stats()).num_paused < number:
            await asyncio.sleep(0)


def test_unread_stream_gives_its_row_to_others_and_continues_when_read() -> None:
    async def run() -> None:
        async with running_engine("endless", settings=settings()) as client:
            expected = await finish(submit(client, "endless", PROMPT, max_tokens=NUM_TOKENS))
            slow = submit(client, "endless", PROMPT, max_tokens=NUM_TOKENS)
            await wait_paused(client, 1)

            other = await finish(submit(client, "endless", [9, 8, 7], max_tokens=20))
            stats = await client.stats()
            output = await finish(slow)

            assert len(other.token_ids) == 20
            assert (stats.num_paused, stats.num_decoding, stats.num_pauses) == (1, 0, 1)
            assert output.token_ids == expected.token_ids
            assert (await client.stats()).num_paused == 0

    asyncio.run(run())


def test_stream_that_stays_unread_ends_with_an_error() -> None:
    async def run() -> None:
        async with running_engine("endless", settings=settings(slow_reader_seconds=0.1)) as client:
            slow = submit(client, "endless", PROMPT, max_tokens=10_000)
            async with asyncio.timeout(30):
                while not slow.is_closed:
                    await asyncio.sleep(0.01)
            updates = await slow.next()

            assert 8 < sum(len(update.token_ids) for update in updates) < 1000
            with pytest.raises(ClientTooSlow, match=r"unread for 0\.1 seconds"):
                await slow.next()
            assert client.num_open == 0
            assert (await client.stats()).num_waiting == 0

    asyncio.run(run())


def test_paused_stream_does_not_count_as_running_until_it_is_read() -> None:
    async def run() -> None:
        requests = OpenRequests(num_rows=4)
        states: list[bool] = []
        rules = ReadingRules(
            max_unread_tokens=1, max_pause_seconds=60.0, on_pause=lambda each: states.append(each.is_paused)
        )
        stream = TokenStream(1, requests.remove, rules=rules)
        requests.add(stream)
        stream.put(RowUpdate(sequence_id=1, token_ids=[5, 6]))
        assert (requests.num_open, requests.num_running) == (1, 0)

        await stream.next()

        assert (requests.num_open, requests.num_running) == (1, 1)
        assert states == [True, False]

    asyncio.run(run())

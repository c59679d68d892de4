"""Errors of streams that wait for their start."""

import asyncio
from typing import NoReturn

import pytest

from mlxctl.ir.errors import ModelUnavailable
from mlxctl.protocols import OpenAIChatFormatter
from mlxctl.server.http.deadline import Deadline
from mlxctl.server.http.stream import PendingAnswers, stream_when_started


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("unexpected failure"), b"its log says why"),
        (ModelUnavailable("m", "it is broken"), b"it is broken"),
    ],
)
def test_error_after_the_first_ping_ends_the_stream(error: Exception, expected: bytes) -> None:
    async def run() -> list[bytes]:
        has_pinged = asyncio.Event()

        async def begin() -> NoReturn:
            await has_pinged.wait()
            raise error

        formatter = OpenAIChatFormatter()
        formatter.parse(b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]}')
        start = PendingAnswers(begin())
        chunks = stream_when_started(
            start,
            formatter,
            stream=lambda _: pytest.fail("nothing began"),
            ping_interval_seconds=0.02,
            deadline=Deadline(60),
        )
        received = []
        async for chunk in chunks:
            received.append(chunk)
            has_pinged.set()
        return received

    first, *_, last = asyncio.run(run())

    assert first.startswith(b":")
    assert expected in last
    assert b"unexpected failure" not in last

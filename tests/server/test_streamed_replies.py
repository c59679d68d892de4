"""Errors of streamed replies whose answers do not start."""

import asyncio
from typing import NoReturn

import pytest

from mlxctl.inference.call_context import operator_call
from mlxctl.ir.errors import ModelUnavailable
from mlxctl.protocols.openai.chat import ChatEncoder, parse_chat
from mlxctl.server.http.stream import StreamedReply


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

        body = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]}'
        _, shape = parse_chat(body)
        reply = StreamedReply(
            begin(),
            operator_call(),
            create_waiting=lambda: ChatEncoder(shape),
            ping_interval_seconds=0.02,
        )
        received = []
        async for chunk in await reply.chunks():
            received.append(chunk)
            has_pinged.set()
        return received

    first, *_, last = asyncio.run(run())

    assert first.startswith(b":")
    assert expected in last
    assert b"unexpected failure" not in last

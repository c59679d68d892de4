"""The client counts what came and when, under any cutting of the bytes, and says what went wrong."""

import asyncio
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.bench.client import Stream, StreamReceiver, run_stream
from mlxctl.bench.endpoint import Endpoint
from mlxctl.errors import (
    AuthenticationFailed,
    ConnectionLost,
    InvalidRequest,
    MlxctlError,
    SequenceFailed,
    ServerUnreachable,
)
from tests.bench.fixed_rate_server import fixed_rate_server

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
DELTAS = [
    '{"role":"assistant","content":""}',
    '{"reasoning_content": "so"}',
    '{"content":"a \\"content\\": \\"b"}',
    '{"tool_calls":[{"index":0,"function":{"arguments":"{\\"x\\":"}}]}',
    '{"content":"c"}',
]
NUM_PIECES = 4
USAGE = 'data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":5}}}\n\n'


def answer(*, usage: str = USAGE, end: str = "data: [DONE]\n\n") -> bytes:
    """A stream with four pieces that a person would see, and an empty one."""
    return (
        HEAD
        + "".join(f'data: {{"choices":[{{"delta":{delta}}}],"usage":null}}\n\n' for delta in DELTAS).encode()
        + (usage + end).encode()
    )


def read(*pieces: bytes) -> Stream:
    """What the client makes of bytes that come in these pieces."""

    async def feed() -> Stream:
        stream = Stream()
        reader = StreamReceiver(stream, None)
        for piece in pieces:
            for start in range(0, len(piece), 1000):
                part = piece[start : start + 1000]
                memoryview(reader.get_buffer(-1))[: len(part)] = part
                reader.buffer_updated(len(part))
        reader.connection_lost(None)
        reader.check()
        return stream

    return asyncio.run(feed())


@given(st.lists(st.integers(0, len(answer())), max_size=12))
def test_pieces_are_counted_once_however_the_network_cuts_them(cuts: list[int]) -> None:
    data, edges = answer(), [0, *sorted(cuts), len(answer())]
    stream = read(*(data[start:end] for start, end in pairwise(edges)))
    assert len(stream.events) == NUM_PIECES
    assert (stream.num_tokens, stream.num_prompt_tokens, stream.num_cached_tokens) == (7, 12, 5)


def test_without_usage_the_pieces_are_the_tokens() -> None:
    stream = read(answer(usage=""))
    assert stream.num_tokens is None
    assert stream.num_counted == NUM_PIECES


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", ConnectionLost, "without an answer"),
        (
            b"HTTP/1.1 401 Unauthorized\r\n\r\n" + b'{"error":{"message":"no key"}}',
            AuthenticationFailed,
            "no key",
        ),
        (
            b"HTTP/1.1 400 Bad\r\n\r\n1f\r\n" + b'{"error":{"message":"too long"}}' + b"\r\n0\r\n",
            InvalidRequest,
            "too long",
        ),
        (answer(end=""), ConnectionLost, "mid-answer"),
        (answer(end='data: {"error":{"message":"boom"}}\n\ndata: [DONE]\n\n'), SequenceFailed, "boom"),
    ],
)
def test_what_is_no_whole_answer_is_said(data: bytes, error: type[MlxctlError], words: str) -> None:
    with pytest.raises(error, match=words):
        read(data)


def test_pieces_that_come_together_are_one_arrival() -> None:
    stream = read(answer())
    stream.events[:] = [1.0, 1.0, 1.0, 1.5, 1.5, 1.6]
    assert stream.gaps == pytest.approx([0.5, 0.1])


def test_times_are_those_of_the_server() -> None:
    with fixed_rate_server(pause_seconds=0.02) as server:
        stream = asyncio.run(run_stream(Endpoint.of(server.url), {"messages": [], "max_tokens": 10}))
    assert stream.num_counted == len(stream.events) == 10
    assert 0.02 <= stream.ttft < 0.15
    assert 20 < stream.tokens_per_second < 51
    assert stream.seconds >= 0.2


def test_nobody_at_the_address_is_said() -> None:
    with pytest.raises(ServerUnreachable, match="no server answers at http://127"):
        asyncio.run(run_stream(Endpoint.of("127.0.0.1:9"), {}))


@pytest.mark.parametrize("url", ["http://[::1", "ftp://host", "http://host:port", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(MlxctlError, match="is no URL"):
        Endpoint.of(url)


def test_an_address_may_have_a_prefix_and_its_key_goes_along() -> None:
    endpoint = Endpoint.of("https://host/llm/v1/", api_key="secret")
    assert (endpoint.base_url, endpoint.port, endpoint.path) == (
        "https://host/llm/v1",
        443,
        "/llm/v1/chat/completions",
    )
    head, _, body = endpoint.message({"a": 1}).partition(b"\r\n\r\n")
    assert b"Authorization: Bearer secret" in head
    assert json.loads(body) == {"a": 1}

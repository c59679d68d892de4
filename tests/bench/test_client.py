"""The client counts and times deltas for any split of the bytes."""

import asyncio
import json
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.bench.client import Stream, StreamReceiver, run_stream
from mlxctl.bench.endpoint import ChatEndpoint
from mlxctl.ir.errors import (
    AuthenticationFailed,
    ConnectionLost,
    InvalidRequest,
    MlxctlError,
    SequenceFailed,
    ServerUnreachable,
    SettingsError,
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
NUM_DELTAS = 4
USAGE = (
    'data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":7,'
    '"prompt_tokens_details":{"cached_tokens":5}}}\n\n'
)


def answer(*, usage: str = USAGE, end: str = "data: [DONE]\n\n") -> bytes:
    """Return a stream with four visible deltas and an empty one."""
    return (
        HEAD
        + "".join(f'data: {{"choices":[{{"delta":{delta}}}],"usage":null}}\n\n' for delta in DELTAS).encode()
        + (usage + end).encode()
    )


def read(*pieces: bytes) -> Stream:
    """Feed the pieces to the receiver and return its stream."""

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
def test_deltas_are_counted_once_for_any_packet_split(cuts: list[int]) -> None:
    data, edges = answer(), [0, *sorted(cuts), len(answer())]
    stream = read(*(data[start:end] for start, end in pairwise(edges)))
    assert len(stream.events) == NUM_DELTAS
    assert (stream.num_tokens, stream.num_prompt_tokens, stream.num_cached_tokens) == (7, 12, 5)


def test_without_usage_tokens_are_counted_by_deltas() -> None:
    stream = read(answer(usage=""))
    assert stream.num_tokens is None
    assert stream.num_counted == NUM_DELTAS


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
        (answer(end=""), ConnectionLost, "during the answer"),
        (answer(end='data: {"error":{"message":"boom"}}\n\ndata: [DONE]\n\n'), SequenceFailed, "boom"),
    ],
)
def test_incomplete_answer_raises_a_matching_error(data: bytes, error: type[MlxctlError], words: str) -> None:
    with pytest.raises(error, match=words):
        read(data)


def test_simultaneous_deltas_are_one_arrival() -> None:
    stream = read(answer())
    stream.events[:] = [1.0, 1.0, 1.0, 1.5, 1.5, 1.6]
    assert stream.gaps == pytest.approx([0.5, 0.1])


def test_measured_times_match_a_server_of_known_speed() -> None:
    with fixed_rate_server(pause_seconds=0.02) as server:
        started = time.monotonic()
        stream = asyncio.run(run_stream(ChatEndpoint.of(server.url), {"messages": [], "max_tokens": 10}))
        elapsed = time.monotonic() - started
    assert stream.num_counted == len(stream.events) == 10
    assert stream.ttft >= 0.02
    # The server waits before each of ten tokens; the rest of the time is the machine's.
    assert stream.ttft + 9 * 0.02 <= stream.seconds + 0.01
    assert 0.2 <= stream.seconds <= elapsed
    assert 9 / elapsed < stream.tokens_per_second < 51


def test_unreachable_server_raises_server_unreachable() -> None:
    with pytest.raises(ServerUnreachable, match="no server answers at http://127"):
        asyncio.run(run_stream(ChatEndpoint.of("127.0.0.1:9"), {}))


@pytest.mark.parametrize("url", ["http://[::1", "ftp://host", "http://host:port", "http://"])
def test_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(MlxctlError, match=r"is not a.* URL"):
        ChatEndpoint.of(url)


def test_time_to_first_token_includes_connecting() -> None:
    stream = Stream()

    with pytest.raises(ServerUnreachable):
        asyncio.run(run_stream(ChatEndpoint.of("127.0.0.1:9"), {}, into=stream))

    assert stream.sent > 0


def test_endpoint_keeps_url_prefix_and_sends_api_key() -> None:
    endpoint = ChatEndpoint.of("https://host/llm/v1/", api_key="secret")
    assert (endpoint.base_url, endpoint.port, endpoint.path) == (
        "https://host/llm/v1",
        443,
        "/llm/v1/chat/completions",
    )
    head, _, body = endpoint.message({"a": 1}).partition(b"\r\n\r\n")
    assert b"Authorization: Bearer secret" in head
    assert json.loads(body) == {"a": 1}


def test_a_benchmark_shows_the_client_certificate_of_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXCTL_CLIENT_CERT", "/missing.pem")
    with pytest.raises(SettingsError, match=r"'/missing\.pem' cannot be used"):
        ChatEndpoint.of("https://host").tls()
    assert ChatEndpoint.of("http://host").tls() is None

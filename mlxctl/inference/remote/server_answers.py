"""Answers of a server: bounded, and decoded by type."""

import time
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from mlxctl.ir.errors import ConnectionLost, UnknownResource, describe_bytes
from mlxctl.terminal_text import escape_line

if TYPE_CHECKING:
    import httpx

Answer = TypeVar("Answer")

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of decoding JSON: wrong or not JSON, not UTF-8, or too deep."""
# Deltas are small; a longer line is no stream of an answer and must not fill the memory.
_MAX_LINE_BYTES = 16 * 1024**2
# A chunk has some 250 bytes a token, so that this is a million tokens.
_MAX_STREAM_BYTES = 256 * 1024**2

MAX_ANSWER_BYTES = 128 * 1024**2
"""Size limit of an answer. Pages of /cache have a few MB, vectors of a large batch some 50."""
# Sizes, counts and unix times stay far below; differences and quotients of such numbers are finite.
_MAX_NUMBER = 2**64


def read_answer(response: "httpx.Response", *, seconds: float) -> bytes:
    """Return the body of a streamed response.

    Raises ConnectionLost when it is too large, or takes longer than `seconds`.
    """
    deadline = time.monotonic() + seconds
    body = bytearray()
    for data in response.iter_bytes():
        body += data
        _check_size(response, len(body))
        if time.monotonic() > deadline:
            raise ConnectionLost(f"the answer of {response.url} takes longer than {seconds:g} s")
    return bytes(body)


async def read_answer_async(response: "httpx.Response") -> bytes:
    """Return the body of a streamed response; the caller limits the time.

    Raises ConnectionLost when it is too large.
    """
    body = bytearray()
    async for data in response.aiter_bytes():
        body += data
        _check_size(response, len(body))
    return bytes(body)


def decode_answer(body: bytes, kind: type[Answer], *, url: str) -> Answer:
    """Return a JSON body as `kind`.

    Raises UnknownResource that names the first wrong field.
    """
    try:
        value = msgspec.json.decode(body)
    except UNREADABLE as error:
        raise _unknown_format(url, error) from None
    if _has_huge_number(value):
        raise _unknown_format(url, "it has a number beyond 64 bits")
    return convert_answer(value, kind, url=url)


def convert_answer(value: Any, kind: type[Answer], *, url: str) -> Answer:
    """Return decoded JSON as `kind`. Raises as `decode_answer`."""
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise _unknown_format(url, error) from None


def _unknown_format(url: str, problem: object) -> UnknownResource:
    # The problem may quote the answer.
    return UnknownResource(escape_line(f"the answer of {url} is not in the expected format: {problem}"))


class LineReader:
    """Splits a byte stream at line feeds.

    A carriage return before one is dropped.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._num_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes.

        Raises ConnectionLost for an endless line or stream.
        """
        self._num_bytes += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _MAX_LINE_BYTES:
            raise ConnectionLost(f"the server sent a line of more than {_MAX_LINE_BYTES} bytes")
        if self._num_bytes > _MAX_STREAM_BYTES:
            raise ConnectionLost(f"the server sent an answer of more than {_MAX_STREAM_BYTES} bytes")
        return [line.removesuffix(b"\r") for line in lines]


def _check_size(response: "httpx.Response", num_bytes: int) -> None:
    if num_bytes > MAX_ANSWER_BYTES:
        raise ConnectionLost(f"the answer of {response.url} has more than {describe_bytes(MAX_ANSWER_BYTES)}")


def _has_huge_number(value: Any) -> bool:
    pending = [value]
    while pending:
        found = pending.pop()
        if isinstance(found, dict):
            pending.extend(found.values())
        elif isinstance(found, list):
            pending.extend(found)
        elif isinstance(found, int | float) and abs(found) > _MAX_NUMBER:
            return True
    return False

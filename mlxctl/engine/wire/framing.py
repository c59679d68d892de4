"""Frames on a byte stream: 4-byte big-endian length, then a MessagePack message."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from mlxctl.engine.wire.commands import Command
from mlxctl.engine.wire.messages import AnyCommand, AnyReport
from mlxctl.engine.wire.rank_messages import RankOperation, RankReply
from mlxctl.engine.wire.reports import Report

# More than the largest prompt: 16M token ids take 64 MiB.
MAX_FRAME_BYTES = 288 * 1024 * 1024

_LENGTH = struct.Struct(">I")
M = TypeVar("M")


def _encode_path(value: object) -> str:
    if not isinstance(value, Path):
        raise TypeError(f"messages hold no {type(value).__name__}")
    return str(value)


def _decode_path(kind: type[Any], value: object) -> object:
    return kind(value)


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_path)


class FrameTooLargeError(ValueError):
    """A frame announces more than MAX_FRAME_BYTES."""


def encode_frame(message: Command | Report | RankOperation | RankReply) -> bytes:
    """Return the message as one frame."""
    payload = _encoder.encode(message)
    return _LENGTH.pack(len(payload)) + payload


class FrameReader(Generic[M]):
    """Decodes messages from bytes that are cut anywhere.

    One per stream; not thread-safe.
    """

    def __init__(self, message_type: object, *, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(
            message_type, dec_hook=_decode_path
        )
        self._buffer = bytearray()

    def feed(self, data: bytes | memoryview) -> Iterator[M]:
        """Yield the messages that `data` completes.

        Raises FrameTooLargeError for more than `max_bytes`, and msgspec.DecodeError on an invalid stream.
        """
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > self._max_bytes:
                raise FrameTooLargeError(f"frame of {length} bytes")
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            yield self._decoder.decode(memoryview(self._buffer)[start + _LENGTH.size : end].tobytes())
            start = end
        del self._buffer[:start]


def command_reader() -> "FrameReader[AnyCommand]":
    """Return a reader for the engine's side."""
    return FrameReader(AnyCommand)


def report_reader() -> "FrameReader[AnyReport]":
    """Return a reader for the front's side."""
    return FrameReader(AnyReport)

"""Archive format: a stream of frames that carries prefixes between directories.

`MLXA` and the format version (uint32, little-endian); then frames, each the length of its header (uint32),
the header (MessagePack) and, for chunks and states, the bytes of the record, whose digest is in the header. A
parent comes before its children, a chunk before its states. The last frame has the number of the others and
the SHA-256 of every byte before it. An archive contains no path. Knows neither directories nor MLX.
"""

import os
import struct
from collections.abc import Iterator
from hashlib import sha256
from typing import IO

import msgspec

from mlxctl.ir.tokens import Salt
from mlxctl.prefix_cache.chunks import CHUNK_TOKENS, Key, chunk_key, root_key, state_key
from mlxctl.prefix_cache.disk.header import DamagedRecordError, read_header

ARCHIVE_VERSION = 1

_MAGIC = b"MLXA"
_PREAMBLE = struct.Struct("<4sI")
_LENGTH = struct.Struct("<I")
_MAX_HEADER_BYTES = 64 * 1024


class ArchiveError(ValueError):
    """Not an archive, another version, cut off or damaged."""


class ChunkFrame(msgspec.Struct, frozen=True, kw_only=True, tag="chunk"):
    """A chunk; its record of keys and values follows.

    `ttl_seconds` is the remaining lifetime, None for no limit; `used` orders chunks by last use.
    """

    key: bytes
    parent: bytes | None
    namespace: bytes
    model: str | None
    start: int
    tokens: bytes
    ttl_seconds: float | None
    is_pinned: bool
    used: int
    num_bytes: int
    digest: bytes
    salts: tuple[Salt, ...] = ()


class StateFrame(msgspec.Struct, frozen=True, kw_only=True, tag="state"):
    """A state at a position of an earlier chunk; its record follows."""

    chunk: bytes
    position: int
    num_bytes: int
    digest: bytes


class EndFrame(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    """Last frame: number of records, digest of all bytes before it."""

    num_records: int
    digest: bytes


Frame = ChunkFrame | StateFrame
_decoder: msgspec.msgpack.Decoder[ChunkFrame | StateFrame | EndFrame] = msgspec.msgpack.Decoder(
    ChunkFrame | StateFrame | EndFrame
)


class ArchiveWriter:
    """Writes an archive into an open file, which the caller closes.

    Raises OSError.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = sha256()
        self.num_records = 0
        self.num_bytes = 0
        self._write(_PREAMBLE.pack(_MAGIC, ARCHIVE_VERSION))

    def add(self, frame: Frame, data: bytes) -> None:
        """Write one frame and its data."""
        self._write(_framed(frame))
        self._write(data)
        self.num_records += 1

    def end(self) -> None:
        """Write the last frame."""
        self._write(_framed(EndFrame(num_records=self.num_records, digest=self._digest.digest())))

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.num_bytes += len(data)


def read_archive(file: IO[bytes]) -> Iterator[tuple[Frame, bytes]]:
    """Yield the frames and records of an archive, all checked.

    Raises ArchiveError at the first damage, at the latest after the last record; a caller that wants all or
    nothing reads it twice. Raises OSError.
    """
    reader = _Reader(file)
    magic, version = _PREAMBLE.unpack(reader.read(_PREAMBLE.size))
    if magic != _MAGIC:
        raise ArchiveError("it is not an archive of a prefix cache")
    if version != ARCHIVE_VERSION:
        raise ArchiveError(f"it has format {version}; this mlxctl reads {ARCHIVE_VERSION}")
    chunks: dict[Key, ChunkFrame] = {}
    num_records = 0
    while True:
        before = reader.digest.digest()
        frame = reader.header()
        if isinstance(frame, EndFrame):
            break
        data = reader.read(frame.num_bytes)
        _check(frame, data, chunks)
        if isinstance(frame, ChunkFrame):
            chunks[frame.key] = frame
        num_records += 1
        yield frame, data
    if frame.num_records != num_records or frame.digest != before or file.read(1):
        raise ArchiveError("its last frame does not match the frames before it")


class _Reader:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._num_left = file.seek(0, os.SEEK_END)
        self.digest = sha256()
        file.seek(0)

    def read(self, num_bytes: int) -> bytes:
        # Checked before the allocation: a header may contain any length.
        if not 0 <= num_bytes <= self._num_left:
            raise ArchiveError("it ends too early")
        data = self._file.read(num_bytes)
        self._num_left -= num_bytes
        self.digest.update(data)
        return data

    def header(self) -> ChunkFrame | StateFrame | EndFrame:
        (length,) = _LENGTH.unpack(self.read(_LENGTH.size))
        if length > _MAX_HEADER_BYTES:
            raise ArchiveError(f"a header has {length} bytes, more than {_MAX_HEADER_BYTES}")
        try:
            return _decoder.decode(self.read(length))
        except msgspec.MsgspecError as error:
            raise ArchiveError(f"a header cannot be read: {error}") from error


def _framed(frame: Frame | EndFrame) -> bytes:
    header = msgspec.msgpack.encode(frame)
    return _LENGTH.pack(len(header)) + header


def _check(frame: Frame, data: bytes, chunks: dict[Key, ChunkFrame]) -> None:
    """Raise ArchiveError unless a frame matches its record and earlier frames."""
    if sha256(data).digest() != frame.digest:
        raise ArchiveError("a record does not match its digest")
    name, position = (
        _state_name(frame, chunks) if isinstance(frame, StateFrame) else (_chunk_name(frame, chunks), None)
    )
    try:
        read_header(data, chunk=name, position=position)
    except DamagedRecordError as error:
        raise ArchiveError(f"a record cannot be used: {error}") from error


def _chunk_name(frame: ChunkFrame, chunks: dict[Key, ChunkFrame]) -> Key:
    parent = chunks.get(frame.parent) if frame.parent is not None else None
    start = parent.start + CHUNK_TOKENS if parent is not None else 0
    is_placed = (
        frame.start == start
        and (parent is None) == (frame.parent is None)
        and (
            parent is None or (parent.namespace == frame.namespace and len(parent.tokens) == 4 * CHUNK_TOKENS)
        )
        and 0 < len(frame.tokens) <= 4 * CHUNK_TOKENS
        and len(frame.tokens) % 4 == 0
    )
    if not is_placed or _key_of(frame) != frame.key:
        raise ArchiveError("a chunk does not match its key")
    return frame.key


def _key_of(frame: ChunkFrame) -> Key:
    return chunk_key(frame.parent or root_key(frame.namespace), frame.tokens, frame.salts, start=frame.start)


def _state_name(frame: StateFrame, chunks: dict[Key, ChunkFrame]) -> tuple[Key, int]:
    chunk = chunks.get(frame.chunk)
    if chunk is None or not 0 < frame.position - chunk.start <= len(chunk.tokens) // 4:
        raise ArchiveError("a state belongs to no chunk")
    name = state_key(
        chunk.parent or root_key(chunk.namespace),
        chunk.tokens,
        frame.position - chunk.start,
        chunk.salts,
        start=chunk.start,
    )
    return name, frame.position

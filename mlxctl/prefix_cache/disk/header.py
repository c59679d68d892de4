"""How a record on disk begins: what it is, whose it is, and how its bytes are to be read. Knows no arrays.

A record is `MLXP`, the version of this format and the length of its header (both uint32, little-endian), the
header (MessagePack), then the arrays one after the other. The header repeats whatever the manifest says of
the record, because only the record is covered by a digest.
"""

import struct
from typing import Any, Literal

import msgspec

from mlxctl.prefix_cache.chunks import Key

FORMAT_VERSION = 1

_MAGIC = b"MLXP"
_PREAMBLE = struct.Struct("<4sII")


class DamagedRecordError(ValueError):
    """These bytes are not the record that they should be."""


class ForeignRecordError(DamagedRecordError):
    """These bytes may be a record, but of another chunk or in another version's format."""


class RecordHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Of which chunk it is, or the state at which position; dtype and shape of every array; how they hang
    together.

    Chunks that begin alike share a state, so for one `chunk` is the key of the prefix that ends there.

    `tree` holds the arrays by number: `{"array": 3}`; tuples are `{"tuple": [...]}`.
    """

    kind: Literal["kv", "packed", "state"]
    chunk: bytes
    position: int | None
    arrays: list[tuple[str, list[int]]]
    tree: Any


_decoder = msgspec.msgpack.Decoder(RecordHeader)


def encode_header(header: RecordHeader) -> bytes:
    """Return the bytes before the arrays."""
    body = msgspec.msgpack.encode(header)
    return _PREAMBLE.pack(_MAGIC, FORMAT_VERSION, len(body)) + body


def read_header(data: bytes, *, chunk: Key, position: int | None) -> tuple[RecordHeader, int]:
    """Return the header and where the arrays begin.

    Raises DamagedRecordError unless it is a record of that chunk and position.
    """
    try:
        magic, version, length = _PREAMBLE.unpack_from(data)
        if magic != _MAGIC:
            raise DamagedRecordError("it is no record")
        if version != FORMAT_VERSION:
            raise ForeignRecordError(f"it has format {version}, not {FORMAT_VERSION}")
        start = _PREAMBLE.size + length
        header = _decoder.decode(data[_PREAMBLE.size : start])
    except (struct.error, msgspec.MsgspecError) as error:
        raise DamagedRecordError(f"its header cannot be read: {error}") from error
    if header.chunk != chunk or header.position != position:
        raise ForeignRecordError("it is another chunk's")
    return header, start

"""Record format on disk. Knows no arrays.

A record is `MLXP`, the format version and the length of its header (both uint32, little-endian), the header
(MessagePack), then the arrays one after the other. The header repeats what the manifest says of the record,
because the digest covers only the record.
"""

import struct
from typing import Any, Literal

import msgspec

from mlxctl.prefix_cache.chunks import Key

FORMAT_VERSION = 1

_MAGIC = b"MLXP"
_PREAMBLE = struct.Struct("<4sII")


class DamagedRecordError(ValueError):
    """The bytes are not the expected record."""


class ForeignRecordError(DamagedRecordError):
    """The bytes belong to another chunk or have another format version."""


class RecordHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Chunk, position, and dtype, shape and nesting of the arrays.

    `chunk` of a state is the key of the prefix that ends at its position, since sibling chunks share it.
    `tree` refers to arrays by index: `{"array": 3}`; tuples are `{"tuple": [...]}`.
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
    """Return the header and the offset of the arrays.

    Raises DamagedRecordError unless the record has this chunk and position.
    """
    try:
        magic, version, length = _PREAMBLE.unpack_from(data)
        if magic != _MAGIC:
            raise DamagedRecordError("it is not a record")
        if version != FORMAT_VERSION:
            raise ForeignRecordError(f"it has format {version}, not {FORMAT_VERSION}")
        start = _PREAMBLE.size + length
        header = _decoder.decode(data[_PREAMBLE.size : start])
    except (struct.error, msgspec.MsgspecError) as error:
        raise DamagedRecordError(f"its header cannot be read: {error}") from error
    if header.chunk != chunk or header.position != position:
        raise ForeignRecordError("it belongs to another chunk")
    return header, start

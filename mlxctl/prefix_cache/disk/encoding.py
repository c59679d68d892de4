"""Records to bytes and back, in the format of `header`.

MLX thread only: bytes may cross to other threads, arrays never do.
"""

import math
from typing import Any, Literal

import mlx.core as mx
import numpy as np

from mlxctl.prefix_cache.chunks import Key
from mlxctl.prefix_cache.disk.header import DamagedRecordError, RecordHeader, encode_header, read_header
from mlxctl.prefix_cache.packing import PackedKVRecord, Record
from mlxctl.prefix_cache.records import KVRecord, StateRecord

Kind = Literal["kv", "packed", "state"]
_KV_KINDS: dict[str, type[KVRecord] | type[PackedKVRecord]] = {"kv": KVRecord, "packed": PackedKVRecord}

_DTYPES = {
    str(dtype): dtype
    for dtype in (
        mx.bfloat16, mx.float16, mx.float32, mx.bool_,
        mx.uint8, mx.uint16, mx.uint32, mx.uint64, mx.int8, mx.int16, mx.int32, mx.int64,
    )
}  # fmt: skip


def encode(record: Record, *, chunk: Key, position: int | None) -> list[bytes]:
    """Return a record as pieces to be written one after the other.

    `chunk` and `position` go into its header; `position` is None for keys and values.
    """
    arrays: list[mx.array] = []
    kind, content = _content(record)
    tree = _pack(content, arrays)
    flat = [mx.contiguous(array).reshape(-1).view(mx.uint8) for array in arrays]
    mx.eval(flat)
    shapes = [(str(array.dtype), list(array.shape)) for array in arrays]
    header = RecordHeader(kind=kind, chunk=chunk, position=position, arrays=shapes, tree=tree)
    return [encode_header(header), *(bytes(memoryview(array)) for array in flat)]  # type: ignore[arg-type]


def decode(data: bytes, *, chunk: Key, position: int | None) -> Record:
    """Return the record in `data`.

    Raises DamagedRecordError unless it has this chunk and position, in this format.
    """
    header, start = read_header(data, chunk=chunk, position=position)
    arrays = _read_arrays(header, data, start)
    try:
        content = _unpack(header.tree, arrays)
        mx.eval(arrays)
        return StateRecord(content) if header.kind == "state" else _KV_KINDS[header.kind](*content)
    except (TypeError, KeyError, IndexError) as error:
        raise DamagedRecordError(f"its arrays do not match its header: {error}") from error


def _content(record: Record) -> tuple[Kind, Any]:
    match record:
        case KVRecord():
            return "kv", (record.layers, record.groups)
        case PackedKVRecord():
            return "packed", (record.layers, record.groups, record.bits, record.group_size)
        case StateRecord():
            return "state", record.states


def _read_arrays(header: RecordHeader, data: bytes, start: int) -> list[mx.array]:
    arrays = []
    for name, shape in header.arrays:
        dtype = _DTYPES.get(name)
        if dtype is None or min(shape, default=0) < 0:
            raise DamagedRecordError(f"it has an array of {name} {shape}")
        num_bytes = math.prod(shape) * dtype.size
        if start + num_bytes > len(data):
            raise DamagedRecordError("it is too short")
        flat = mx.array(np.frombuffer(data, dtype=np.uint8, count=num_bytes, offset=start))
        arrays.append(flat.view(dtype).reshape(shape))
        start += num_bytes
    return arrays


def _pack(value: Any, arrays: list[mx.array]) -> Any:
    if isinstance(value, mx.array):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, tuple):
        return {"tuple": [_pack(item, arrays) for item in value]}
    if isinstance(value, list):
        return [_pack(item, arrays) for item in value]
    if isinstance(value, dict):
        return {"dict": [[_pack(key, arrays), _pack(item, arrays)] for key, item in value.items()]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a cache's state holds a {type(value).__name__}, which cannot be written")


def _unpack(value: Any, arrays: list[mx.array]) -> Any:
    if isinstance(value, dict):
        if "array" in value:
            return arrays[value["array"]]
        if "dict" in value:
            return {_unpack(key, arrays): _unpack(item, arrays) for key, item in value["dict"]}
        return tuple(_unpack(item, arrays) for item in value["tuple"])
    if isinstance(value, list):
        return [_unpack(item, arrays) for item in value]
    return value

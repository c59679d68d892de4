"""Records split in two along the token axis, and joined again.

MLX thread only.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map

from mlxctl.prefix_cache.packing import Record
from mlxctl.prefix_cache.records import StateRecord

# Token axis of every array of a record, packed or not.
_TOKEN_AXIS = 2


def split_record(record: Record, num_tokens: int) -> tuple[Record, Record]:
    """Return the record's first `num_tokens` tokens and the rest, as copies."""
    return _cut(record, slice(0, num_tokens)), _cut(record, slice(num_tokens, None))


def join_records(records: Sequence[Record]) -> Record:
    """Return one record of the consecutive records of a chunk."""
    first, *others = records
    if not others:
        return first
    return _with_groups(
        first,
        tree_map(
            lambda *parts: mx.concatenate(parts, axis=_TOKEN_AXIS), *(_groups(record) for record in records)
        ),
    )


def _cut(record: Record, span: slice) -> Record:
    return _with_groups(record, tree_map(lambda array: mx.contiguous(array[:, :, span]), _groups(record)))


def _groups(record: Record) -> Any:
    assert not isinstance(record, StateRecord), "a chunk holds keys and values"
    return record.groups


def _with_groups(record: Record, groups: Any) -> Record:
    assert not isinstance(record, StateRecord), "a chunk holds keys and values"
    mx.eval([array for _, array in tree_flatten(groups)])
    return replace(record, groups=groups)

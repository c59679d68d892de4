"""Records of which each rank holds its share. MLX thread only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlxctl.engine.decoding.shared_caches import Followers, Handle, number_of
from mlxctl.engine.wire.rank_messages import CopyStates, CutRecord, RestoreCaches, SplitRecord
from mlxctl.prefix_cache.packing import Record
from mlxctl.prefix_cache.records import CacheLayout, KVRecord, StateRecord
from mlxctl.prefix_cache.splitting import split_record


@dataclass(frozen=True, slots=True)
class SharedKVRecord(KVRecord):
    """Rank 0's share of keys and values of consecutive positions."""

    handle: Handle


@dataclass(frozen=True, slots=True)
class SharedStateRecord(StateRecord):
    """Rank 0's share of states at one position."""

    handle: Handle


class SharedLayout(CacheLayout):
    """Cuts and restores the caches of all ranks."""

    def __init__(self, caches: Sequence[Any], followers: Followers) -> None:
        super().__init__(caches)
        self._followers = followers

    def cut(self, caches: Sequence[Any], start: int, end: int, *, row: int | None = None) -> KVRecord:
        handle = self._followers.new_handle()
        self._followers.send(
            CutRecord(caches=number_of(caches), start=start, end=end, row=row, record=handle.number)
        )
        return _shared(super().cut(caches, start, end, row=row), handle)

    def snapshot(self, caches: Sequence[Any], *, row: int | None = None) -> StateRecord:
        handle = self._followers.new_handle()
        self._followers.send(CopyStates(caches=number_of(caches), row=row, record=handle.number))
        return SharedStateRecord(super().snapshot(caches, row=row).states, handle)

    def restore(
        self,
        caches: Sequence[Any],
        records: Sequence[KVRecord],
        num_tokens: int,
        state: StateRecord | None,
        *,
        capacity: int,
        is_lazy: bool = False,
    ) -> None:
        self._followers.send(
            RestoreCaches(
                caches=number_of(caches),
                records=[_handle_of(record).number for record in records],
                num_tokens=num_tokens,
                states=_handle_of(state).number if state is not None else None,
                capacity=capacity,
            )
        )
        super().restore(caches, records, num_tokens, state, capacity=capacity, is_lazy=is_lazy)


def split_shared_record(record: Record, num_tokens: int) -> tuple[Record, Record]:
    """Split a record on all ranks."""
    assert isinstance(record, SharedKVRecord), "a group shares its records"
    followers = record.handle.followers
    first, rest = followers.new_handle(), followers.new_handle()
    followers.send(
        SplitRecord(record=record.handle.number, num_tokens=num_tokens, first=first.number, rest=rest.number)
    )
    parts = split_record(KVRecord(record.layers, record.groups), num_tokens)
    return _shared(parts[0], first), _shared(parts[1], rest)


def _shared(record: Record, handle: Handle) -> SharedKVRecord:
    assert isinstance(record, KVRecord), "records of a group are not packed"
    return SharedKVRecord(record.layers, record.groups, handle)


def _handle_of(record: Any) -> Handle:
    assert isinstance(record, SharedKVRecord | SharedStateRecord), "a group shares its records"
    return record.handle

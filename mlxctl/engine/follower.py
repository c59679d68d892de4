"""A rank that repeats what rank 0 does. MLX thread only.

It decides nothing: caches, records and passes are those that rank 0 announces, and tokens come from there.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx
import msgspec
import numpy as np

from mlxctl.engine.backend import current_backend
from mlxctl.engine.decoding import cache_room as room
from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.generation.measurement import measure
from mlxctl.engine.generation.prefill_pass import PrefillPass
from mlxctl.engine.loading.loader import (
    LOAD_ERRORS,
    default_memory_limit,
    error_line,
    load_lm_model,
    read_weights,
)
from mlxctl.engine.loading.sharding import keep_share
from mlxctl.engine.ranks.plan import plan_of
from mlxctl.engine.ranks.ring import join_ring
from mlxctl.engine.wire.rank_messages import (
    AnyRankOperation,
    BuildPass,
    CheckPlan,
    Claim,
    CopyRow,
    CopyStates,
    CutRecord,
    DecodeStep,
    EvaluateLayers,
    FinishPass,
    FormRing,
    JoinCaches,
    KeepRows,
    LoadShard,
    MeasureModel,
    MemoryUsed,
    NewCaches,
    PlanAccepted,
    RankReply,
    Refused,
    Release,
    RestoreCaches,
    ScoreTokens,
    ShardLoaded,
    SplitRecord,
    TakeRow,
    TrimCaches,
    UnloadShard,
)
from mlxctl.ir import ModelSpec
from mlxctl.ir.errors import ModelError, describe_bytes
from mlxctl.prefix_cache.packing import Record
from mlxctl.prefix_cache.records import CacheLayout, leaves
from mlxctl.prefix_cache.splitting import split_record
from mlxctl.state.rank_hosts import RankHosts

# Recurrent layers and offsets grow a graph that nothing else evaluates.
_EVALUATE_EVERY = 32


@dataclass(slots=True, eq=False)
class _Held:
    """Caches with their model, and their unfinished pass."""

    model: "_Shard"
    caches: kv.Caches
    begun: PrefillPass | None = None
    paddings: list[int] | None = None
    num_steps: int = 0


@dataclass(slots=True, eq=False)
class _Shard:
    """A share of a model.

    Ranks of a pipeline have different layers: each evaluates all of its own at the first turn of a pass.
    """

    model: Any
    config: dict[str, Any]
    layout: CacheLayout
    is_whole_pass: bool


class Follower:
    """The models, caches and records of one rank."""

    def __init__(
        self,
        hosts: RankHosts,
        rank: int,
        reply: Callable[[RankReply], None],
        models: dict[str, Path] | None,
    ) -> None:
        """`models` are directories by served name.

        None takes those that rank 0 names.
        """
        self.rank = rank
        self._hosts, self._reply, self._models = hosts, reply, models
        self._limit_bytes = default_memory_limit() // hosts.num_beside(rank)
        self._ring: Any = None
        self._shards: dict[str, _Shard] = {}
        self._held: dict[int, _Held] = {}
        self._records: dict[int, Record] = {}

    def report_memory(self) -> None:
        """Report the memory in use to rank 0."""
        self._reply(MemoryUsed(active_bytes=int(mx.get_active_memory())))

    def carry_out(self, operation: AnyRankOperation) -> None:
        """Repeat an operation. Any error leaves the rank unusable."""
        match operation:
            case DecodeStep():
                self._decode(operation)
            case BuildPass():
                self._build(operation)
            case EvaluateLayers(caches=number, num_layers=num_layers):
                held = self._held[number]
                if held.begun is not None:
                    held.begun.evaluate(len(held.caches) if held.model.is_whole_pass else num_layers)
                if held.model.is_whole_pass:
                    held.begun = None
            case FinishPass(caches=number):
                held = self._held[number]
                kv.finish_forward(held.caches, held.paddings or [])
            case ScoreTokens():
                self._score(operation)
            case CutRecord() | CopyStates() | SplitRecord() | RestoreCaches():
                self._copy(operation)
            case Claim():
                pass
            case FormRing(memory_limit_bytes=limit):
                mx.set_cache_limit(current_backend().buffer_cache_bytes(limit))
                mx.set_memory_limit(limit)
                self._ring = join_ring(self._hosts, self.rank)
            case CheckPlan():
                self._check(operation)
            case LoadShard(spec=spec, split=split):
                self._load(spec, split)
            case MeasureModel(name=name):
                loaded = self._shards[name]
                # Rank 0 reports what is wrong with the model.
                with contextlib.suppress(ValueError):
                    measure(loaded.model, time.monotonic(), config=loaded.config)
            case UnloadShard(name=name):
                self._shards.pop(name, None)
                mx.clear_cache()
            case _:
                self._arrange(operation)

    def _arrange(self, operation: AnyRankOperation) -> None:
        """Create, join and free caches."""
        match operation:
            case NewCaches(model=name, caches=number):
                loaded = self._shards[name]
                self._held[number] = _Held(loaded, kv.new_caches(loaded.model))
            case JoinCaches():
                parts = [self._held.pop(number) for number in operation.parts]
                joined = kv.join(
                    [part.caches for part in parts],
                    operation.num_rows,
                    spare_bytes=operation.spare_bytes,
                    piece_bytes=operation.piece_bytes,
                )
                self._held[operation.joined] = _Held(parts[0].model, joined)
            case KeepRows(caches=number, rows=rows, frees=frees):
                kv.keep_rows(self._held[number].caches, rows, frees=frees)
            case TakeRow(caches=number, row=row, taken=taken):
                held = self._held.pop(number)
                self._held[taken] = _Held(held.model, kv.take_row(held.caches, row))
            case CopyRow(caches=number, row=row, copy=copy):
                held = self._held[number]
                self._held[copy] = _Held(held.model, kv.extract_row(held.caches, row))
            case TrimCaches(caches=number, num_tokens=num_tokens):
                for layer in leaves(self._held[number].caches):
                    layer.trim(num_tokens)
            case Release(numbers=numbers):
                for number in numbers:
                    self._held.pop(number, None)
                    self._records.pop(number, None)
            case _:
                raise TypeError(f"unknown operation {type(operation).__name__}")

    def _copy(self, operation: CutRecord | CopyStates | SplitRecord | RestoreCaches) -> None:
        """Copy between caches and records."""
        match operation:
            case SplitRecord():
                parts = split_record(self._records[operation.record], operation.num_tokens)
                self._records[operation.first], self._records[operation.rest] = parts
            case CutRecord(caches=number, start=start, end=end, row=row, record=record):
                held = self._held[number]
                self._records[record] = held.model.layout.cut(held.caches, start, end, row=row)
            case CopyStates(caches=number, row=row, record=record):
                held = self._held[number]
                self._records[record] = held.model.layout.snapshot(held.caches, row=row)
            case RestoreCaches(caches=number, states=states):
                held = self._held[number]
                records: Sequence[Any] = [self._records[each] for each in operation.records]
                state: Any = None if states is None else self._records[states]
                held.model.layout.restore(
                    held.caches, records, operation.num_tokens, state, capacity=operation.capacity
                )

    def _build(self, operation: BuildPass) -> None:
        held = self._held[operation.caches]
        padded = np.frombuffer(operation.tokens, dtype=np.uint32).reshape(len(operation.paddings), -1)
        rows = [row[: len(row) - padding] for row, padding in zip(padded, operation.paddings, strict=True)]
        held.paddings = kv.begin_forward(held.model.model, held.caches, rows)
        held.begun = PrefillPass(held.caches, states=None)

    def _decode(self, operation: DecodeStep) -> None:
        held = self._held[operation.caches]
        if room.lacks_room(held.caches, 1):
            room.grow(held.caches, 1, step=room.STEP_TOKENS)
        tokens = np.frombuffer(operation.tokens, dtype=np.uint32)
        # Rank 0 alone needs logits.
        states = held.model.model.model(mx.array(tokens)[:, None], held.caches)
        held.num_steps += 1
        mx.eval(states, kv.arrays(held.caches) if held.num_steps % _EVALUATE_EVERY == 0 else [])

    def _score(self, operation: ScoreTokens) -> None:
        held = self._held[operation.caches]
        tokens = np.frombuffer(operation.tokens, dtype=np.uint32)
        states = held.model.model.model(mx.array(tokens)[None], held.caches)
        mx.eval(states, kv.arrays(held.caches))

    def _check(self, operation: CheckPlan) -> None:
        if reason := self._objection(operation):
            self._reply(Refused(reason=reason))
        else:
            self._reply(PlanAccepted(name=operation.spec.name, memory_limit_bytes=self._limit_bytes))

    def _objection(self, operation: CheckPlan) -> str | None:
        """Return why this rank cannot load its share, for the operator."""
        spec = self._own(operation.spec)
        if spec is None:
            return f"it has no model {operation.spec.name!r}, only {', '.join(sorted(self._models or ()))}"
        try:
            own = plan_of(spec, len(self._hosts.ranks), operation.plan.split)
        except (*LOAD_ERRORS, ModelError) as error:
            return f"it cannot read the model: {error_line(error)}"
        if difference := operation.plan.difference(own):
            return f"it has {difference}"
        if spec.weights_bytes > self._limit_bytes:
            limit, share = describe_bytes(self._limit_bytes), describe_bytes(spec.weights_bytes)
            return f"it has {limit} for MLX, and its share of the model takes {share}"
        return None

    def _load(self, spec: ModelSpec, split: Literal["tensor", "pipeline"]) -> None:
        own = self._own(spec)
        assert own is not None, "the plan is compared first"
        try:
            model, config = load_lm_model(own.path)
            keep_share(model, self._ring, split)
            for _ in read_weights(model):
                pass
        except LOAD_ERRORS as error:
            self._reply(Refused(reason=f"the model cannot be loaded: {error_line(error)}"))
            return
        model.eval()
        layout = CacheLayout(kv.new_caches(model))
        self._shards[spec.name] = _Shard(model, config, layout, is_whole_pass=split == "pipeline")
        mx.clear_cache()
        self._reply(ShardLoaded(name=spec.name))

    def _own(self, spec: ModelSpec) -> ModelSpec | None:
        """Return the model as it is here, None if it is not."""
        if self._models is None:
            return spec
        path = self._models.get(spec.name)
        if path is None and len(self._models) == 1:
            # The plan compares the files; the name may differ.
            (path,) = self._models.values()
        return None if path is None else msgspec.structs.replace(spec, path=path)

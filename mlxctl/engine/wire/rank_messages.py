"""Messages between ranks: operations from rank 0, and replies to it.

Objects that every rank holds, such as caches and records, have numbers that rank 0 gives. Token ids are
packed uint32 in the machine's byte order.
"""

from typing import Literal

import msgspec

from mlxctl.ir import ModelSpec

CONTROL_VERSION = 1
"""Changes with these messages."""


class RankPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What must be equal on all ranks before they compute together."""

    control_version: int
    mlxctl: str
    mlx: str
    mlx_lm: str
    num_ranks: int
    split: str
    model: str
    """Fingerprint of the model's files."""

    def difference(self, other: "RankPlan") -> str | None:
        """Return the first field in which `other` differs, with both values."""
        for field in self.__struct_fields__:
            ours, theirs = getattr(self, field), getattr(other, field)
            if ours != theirs:
                return f"{_FIELD_NAMES.get(field, field)} {theirs!r} instead of {ours!r}"
        return None


_FIELD_NAMES = {"control_version": "control version", "mlx_lm": "mlx-lm", "num_ranks": "number of ranks"}


class RankOperation(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of what rank 0 sends; ranks carry operations out in order."""


class Claim(RankOperation, frozen=True, kw_only=True):
    """The first message: the secret of the group and the receiver's rank."""

    token: str
    rank: int


class FormRing(RankOperation, frozen=True, kw_only=True):
    """Join the ring of all ranks, within a memory limit for MLX."""

    memory_limit_bytes: int


class CheckPlan(RankOperation, frozen=True, kw_only=True):
    """Compare the plan for a model; answered by PlanAccepted or Refused."""

    spec: ModelSpec
    plan: RankPlan


class LoadShard(RankOperation, frozen=True, kw_only=True):
    """Load this rank's share of a model; answered by ShardLoaded or Refused.

    With `tensor` it is a part of every layer, with `pipeline` some of the layers.
    """

    spec: ModelSpec
    split: Literal["tensor", "pipeline"]


class MeasureModel(RankOperation, frozen=True, kw_only=True):
    """Measure a loaded model by a pass of all ranks."""

    name: str


class UnloadShard(RankOperation, frozen=True, kw_only=True):
    """Free a model."""

    name: str


class NewCaches(RankOperation, frozen=True, kw_only=True):
    """Create empty caches of a sequence."""

    model: str
    caches: int


class RestoreCaches(RankOperation, frozen=True, kw_only=True):
    """Fill empty caches from records, and a record of states."""

    caches: int
    records: list[int]
    num_tokens: int
    states: int | None
    capacity: int


class BuildPass(RankOperation, frozen=True, kw_only=True):
    """Build a prefill pass over the next tokens of every row.

    Rows are padded at their ends.
    """

    caches: int
    tokens: bytes
    paddings: list[int]


class EvaluateLayers(RankOperation, frozen=True, kw_only=True):
    """Evaluate the next layers of the pass that was built last."""

    caches: int
    num_layers: int


class FinishPass(RankOperation, frozen=True, kw_only=True):
    """Align the rows of an evaluated pass at their ends."""

    caches: int


class ScoreTokens(RankOperation, frozen=True, kw_only=True):
    """Compute a pass with the logits of all its tokens."""

    caches: int
    tokens: bytes


class DecodeStep(RankOperation, frozen=True, kw_only=True):
    """Compute one token of every row."""

    caches: int
    tokens: bytes


class JoinCaches(RankOperation, frozen=True, kw_only=True):
    """Join caches to one batch; the parts are no longer used."""

    parts: list[int]
    num_rows: list[int]
    spare_bytes: int
    piece_bytes: int
    joined: int


class KeepRows(RankOperation, frozen=True, kw_only=True):
    """Drop all rows but these."""

    caches: int
    rows: list[int]
    frees: bool


class TakeRow(RankOperation, frozen=True, kw_only=True):
    """Turn a row into caches of a sequence, which ends the batch."""

    caches: int
    row: int
    taken: int


class CopyRow(RankOperation, frozen=True, kw_only=True):
    """Copy a row to caches of a sequence."""

    caches: int
    row: int
    copy: int


class TrimCaches(RankOperation, frozen=True, kw_only=True):
    """Drop the last tokens of caches of a sequence."""

    caches: int
    num_tokens: int


class CutRecord(RankOperation, frozen=True, kw_only=True):
    """Copy positions of caches to a record."""

    caches: int
    start: int
    end: int
    row: int | None
    record: int


class CopyStates(RankOperation, frozen=True, kw_only=True):
    """Copy the states of layers that cannot be cut to a record."""

    caches: int
    row: int | None
    record: int


class SplitRecord(RankOperation, frozen=True, kw_only=True):
    """Split a record in two."""

    record: int
    num_tokens: int
    first: int
    rest: int


class Release(RankOperation, frozen=True, kw_only=True):
    """Free objects that rank 0 no longer holds."""

    numbers: list[int]


AnyRankOperation = (
    Claim
    | CheckPlan
    | FormRing
    | LoadShard
    | MeasureModel
    | UnloadShard
    | NewCaches
    | RestoreCaches
    | BuildPass
    | EvaluateLayers
    | FinishPass
    | ScoreTokens
    | DecodeStep
    | JoinCaches
    | KeepRows
    | TakeRow
    | CopyRow
    | TrimCaches
    | CutRecord
    | CopyStates
    | SplitRecord
    | Release
)


class RankReply(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of what a rank sends to rank 0."""


class Claimed(RankReply, frozen=True, kw_only=True):
    """The rank belongs to this group."""

    pid: int


class PlanAccepted(RankReply, frozen=True, kw_only=True):
    """The rank has the same model, packages and split.

    It may use `memory_limit_bytes` for MLX.
    """

    name: str
    memory_limit_bytes: int


class ShardLoaded(RankReply, frozen=True, kw_only=True):
    """The rank's share of a model is in memory."""

    name: str


class MemoryUsed(RankReply, frozen=True, kw_only=True):
    """The active memory of MLX, reported while the rank works."""

    active_bytes: int


class Refused(RankReply, frozen=True, kw_only=True):
    """The rank cannot do it; `reason` is for the operator."""

    reason: str


AnyRankReply = Claimed | PlanAccepted | MemoryUsed | ShardLoaded | Refused

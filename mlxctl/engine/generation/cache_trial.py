"""What a model's caches can do, tried with the model.

MLX thread only. For cache classes that are not those of `mlx_lm.models.cache`: models bring their own, with
pools, index keys or compressed states. Each ability is compared with a sequence that is computed alone; what
fails is not used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.host.failures import FOREIGN_ERRORS
from mlxctl.engine.loading.loader import error_line
from mlxctl.prefix_cache.disk.encoding import decode, encode
from mlxctl.prefix_cache.records import CacheLayout, grows, leaves, whole_state

# Tokens of the rows that are tried together; more than the windows of short convolutions and small pools.
_LENGTHS = (41, 34, 9)
_NUM_STEPS = 3
# Rounding in 16 bits differs by less (relative to all logits); a lost state or position by more.
_MAX_DIFFERENCE = 0.1
# The same tokens in an array of the same shape: hardly any rounding differs.
_MAX_NOISE = 0.02
# A restored state is the same numbers.
_MAX_RESTORED_DIFFERENCE = 1e-3
_KEY = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheAbilities:
    """Whether sequences may share a batch, its prefill with padding, and prefixes.

    `whole_bytes_per_token` is what layers that cannot be cut grow by with every token.
    """

    can_batch: bool = True
    can_pad: bool = True
    can_reuse: bool = True
    whole_bytes_per_token: int = 0

    def limits(self) -> str | None:
        """Return in words what is not used; None if all is."""
        missing = [
            text
            for text, has in (("in a batch", self.can_batch), ("from the prefix cache", self.can_reuse))
            if not has
        ]
        return f"not served {' or '.join(missing)}: other answers could result" if missing else None


ALL_ABILITIES = CacheAbilities()


def is_foreign(caches: kv.Caches) -> bool:
    """Whether some cache class is not of mlx-lm's cache module."""
    return any(
        type(layer).__module__.split(".")[0] != "mlxctl" and type(layer).__module__ != "mlx_lm.models.cache"
        for layer in leaves(caches)
    )


def holds_only_keys_and_values(caches: kv.Caches) -> bool:
    """Whether each layer has keys and values once, or a recurrent state.

    A window of them is the same. More than that, such as index keys or pools, belongs to attention that
    selects tokens. Whether its choice depends on the padding of a batch shows only in prompts that are longer
    than its budget.
    """
    for layer in caches:
        parts = list(leaves([layer]))
        attending = [part for part in parts if grows(part) or _is_window(part)]
        recurrent = [part for part in parts if isinstance(getattr(part, "cache", None), list)]
        if len(attending) > 1 or len(attending) + len(recurrent) < len(parts):
            return False
    return True


def try_caches(model: Any, create_caches: Callable[[], kv.Caches], *, vocabulary_size: int) -> CacheAbilities:
    """Compare restored and batched sequences with the same ones alone.

    Takes about 20 passes of at most 41 tokens. Raises ValueError for caches that cannot be measured, and for
    a model that does not write token by token: later tokens change the output of earlier ones, as in
    diffusion models.
    """
    trial = _Trial(model, create_caches, vocabulary_size)
    trial.check_causality()
    try:
        whole_bytes = trial.whole_bytes_per_token()
    except FOREIGN_ERRORS as error:
        reason = error_line(error)
        raise ValueError(f"the memory that its caches need cannot be measured: {reason}") from error
    can_batch = _succeeds(trial.can_batch)
    return CacheAbilities(
        can_batch=can_batch,
        can_pad=can_batch and _succeeds(trial.can_pad),
        can_reuse=_succeeds(trial.can_reuse),
        whole_bytes_per_token=whole_bytes,
    )


def _succeeds(attempt: Callable[[], bool]) -> bool:
    """Return what the attempt finds; False if it raises."""
    try:
        return attempt()
    except FOREIGN_ERRORS:
        return False


class _Trial:
    def __init__(self, model: Any, create_caches: Callable[[], kv.Caches], vocabulary_size: int) -> None:
        self._model, self._create_caches = model, create_caches
        draw = np.random.default_rng(0)
        size = max(_LENGTHS) + _NUM_STEPS
        self._rows: list[kv.Tokens] = [
            draw.integers(0, vocabulary_size, size).astype(np.uint32) for _ in _LENGTHS
        ]

    def check_causality(self) -> None:
        tokens, half = self._rows[0].copy(), len(self._rows[0]) // 2
        before = self._pass(self._create_caches(), [tokens])[0, :half]
        tokens[half:] = self._rows[1][half:]
        after = self._pass(self._create_caches(), [tokens])[0, :half]
        if any(_difference(*pair) > _MAX_NOISE for pair in zip(before, after, strict=True)):
            raise ValueError("it does not write token by token: its output depends on tokens that follow")

    def whole_bytes_per_token(self) -> int:
        sizes = [_whole_bytes(self._read(self._rows[0][:length])) for length in _LENGTHS]
        return (sizes[0] - sizes[-1]) // (_LENGTHS[0] - _LENGTHS[-1])

    def can_reuse(self) -> bool:
        """Restore a prefix from bytes, and cut a prompt into two passes."""
        length, middle = _LENGTHS[0], _LENGTHS[1]
        tokens = self._rows[0]
        kept = self._read(tokens[:middle])
        layout = CacheLayout(kept)
        records = [layout.cut(kept, 0, middle)]
        stored: Any = decode(
            b"".join(encode(layout.snapshot(kept), chunk=_KEY, position=middle)), chunk=_KEY, position=middle
        )
        restored = self._create_caches()
        layout.restore(restored, records, middle, stored if layout.has_states else None, capacity=2 * length)
        rest = [tokens[middle:length]]
        continued, after = self._pass(kept, rest)[0], self._pass(restored, rest)[0]
        whole = self._pass(self._create_caches(), [tokens[:length]])[0, middle:]
        # Position by position: a wrong state may matter for some of them only.
        return _difference(continued, after) <= _MAX_RESTORED_DIFFERENCE and all(
            _difference(*pair) <= _MAX_DIFFERENCE for pair in zip(whole, continued, strict=True)
        )

    def can_batch(self) -> bool:
        """Join two sequences, then a third one; drop a row."""
        caches = [self._read(row[:length]) for row, length in zip(self._rows, _LENGTHS, strict=True)]
        batch = kv.join(caches[:2], [1, 1])
        if not self._agrees(batch, [0, 1], [0, 0]):
            return False
        batch = kv.join([batch, caches[2]], [2, 1])
        if not self._agrees(batch, [0, 1, 2], [1, 1, 0]):
            return False
        kv.keep_rows(batch, [0, 2])
        return self._agrees(batch, [0, 2], [2, 1]) and self._agrees(kv.take_row(batch, 1), [2], [2])

    def can_pad(self) -> bool:
        """Prefill two sequences of different lengths in one padded pass."""
        rows, lengths = self._rows[:2], _LENGTHS[:2]
        batch = kv.join([self._create_caches(), self._create_caches()], [1, 1])
        kv.forward(self._model, batch, [row[:length] for row, length in zip(rows, lengths, strict=True)])
        return self._agrees(batch, [0, 1], [0, 0])

    def _agrees(self, batch: kv.Caches, rows: Sequence[int], steps: Sequence[int]) -> bool:
        """Whether the next logits of rows are those of the rows alone."""
        tokens = [self._rows[row][_LENGTHS[row] + step :][:1] for row, step in zip(rows, steps, strict=True)]
        logits = self._pass(batch, tokens)[:, -1]
        wanted = [self._alone[row][step] for row, step in zip(rows, steps, strict=True)]
        return all(_difference(one, logits[place]) <= _MAX_DIFFERENCE for place, one in enumerate(wanted))

    @cached_property
    def _alone(self) -> list[list[mx.array]]:
        """The logits of the tokens that follow each prompt, computed alone."""
        steps = []
        for row, length in zip(self._rows, _LENGTHS, strict=True):
            caches = self._read(row[:length])
            following = range(length, length + _NUM_STEPS)
            steps.append([self._pass(caches, [row[place : place + 1]])[0, -1] for place in following])
        return steps

    def _read(self, tokens: kv.Tokens) -> kv.Caches:
        caches = self._create_caches()
        self._pass(caches, [tokens])
        return caches

    def _pass(self, caches: kv.Caches, rows: Sequence[kv.Tokens]) -> mx.array:
        logits: mx.array = self._model(mx.array(np.stack(rows)), cache=caches)
        mx.eval(logits)
        kv.evaluate(caches)
        return logits


def _whole_bytes(caches: kv.Caches) -> int:
    states = [whole_state(layer) for layer in leaves(caches) if not (grows(layer) or _is_window(layer))]
    return sum(leaf.nbytes for _, leaf in tree_flatten(states) if isinstance(leaf, mx.array))


def _is_window(layer: Any) -> bool:
    return hasattr(layer, "max_size") and hasattr(layer, "keys")


def _difference(one: mx.array, other: mx.array) -> float:
    """Return the distance of two arrays, relative to the first one's size."""
    one, other = one.astype(mx.float32), other.astype(mx.float32)
    distance: Any = mx.sqrt(mx.square(one - other).sum() / mx.maximum(mx.square(one).sum(), 1e-18))
    return float(distance.item())

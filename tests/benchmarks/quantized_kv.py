"""Quantized KV cache: bytes per token, decode rate, changed tokens."""

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.utils import load_model

from mlxctl.engine.decoding import caches as kv
from mlxctl.ir import KVFormat
from mlxctl.library import demo
from tests import tiny_models
from tests.benchmarks.packing import conversations, random_tokens
from tests.benchmarks.rounds import Finding, Ratio

_PREFILL_TOKENS = 512
_STEPS = 16
_NUM_ROWS = 4
# By bits: maximum size relative to exact, and minimum share of equal next tokens.
_BARS = {8: (0.6, 0.99), 4: (0.35, 0.9)}


def measure(rounds: int) -> Iterator[Finding]:
    """Measure both models with 8 and 4 bits."""
    for name, path, prompts in (
        ("demo model", demo.MODEL_DIR, list(islice(conversations(), _NUM_ROWS))),
        ("5M model", tiny_models.model("bench5m"), list(islice(random_tokens(), _NUM_ROWS))),
    ):
        model = load_model(Path(path))[0]
        for bits in _BARS:
            yield from _measure_one(name, model, prompts, KVFormat(bits=bits, group_size=32), rounds)


def _measure_one(
    name: str, model: Any, prompts: list[list[int]], kv_format: KVFormat, rounds: int
) -> Iterator[Finding]:
    label, (size_bar, same_bar) = f"{name}: in {kv_format.bits} bits", _BARS[kv_format.bits]
    pairs = [(_prefill(model, prompt, None), _prefill(model, prompt, kv_format)) for prompt in prompts]
    size = _num_bytes(pairs[0][1][0]) / _num_bytes(pairs[0][0][0])
    yield Finding(
        f"{label}, bytes of keys and values / as computed", Ratio(size, size, size), size_bar, False, ""
    )
    agreements = [mx.mean(one.argmax(-1) == other.argmax(-1)).item() for (_, one), (_, other) in pairs]
    same = Ratio(sum(agreements) / len(agreements), min(agreements), max(agreements))
    yield Finding(
        f"{label}, same next token", same, same_bar, True, f"of {len(prompts)} texts, each token read alike"
    )
    # The row that decodes alone joins the others afterwards, a few tokens longer in both formats.
    for num_rows in (1, len(prompts)):
        exact, quantized = ([pair[place][0] for pair in pairs[:num_rows]] for place in (0, 1))
        ratio = _decode_ratio(model, exact, quantized, rounds)
        yield Finding(
            f"{label}, decoding {num_rows} rows / as computed",
            ratio,
            0.5,
            True,
            f"after {_PREFILL_TOKENS} tokens each",
        )


def _prefill(model: Any, prompt: list[int], kv_format: KVFormat | None) -> tuple[kv.Caches, mx.array]:
    caches = kv.new_caches(model, kv_format)
    logits = model(mx.array([prompt[:_PREFILL_TOKENS]]), cache=caches)
    mx.eval(logits, kv.arrays(caches))
    return caches, logits


def _num_bytes(caches: kv.Caches) -> int:
    return sum(array.nbytes for array in kv.arrays(caches))


def _decode_ratio(model: Any, exact: list[kv.Caches], quantized: list[kv.Caches], rounds: int) -> Ratio:
    """Return the decode rate of quantized over exact rows.

    The first round is a warm-up.
    """
    batches = [kv.join(rows, [1] * len(rows)) if len(rows) > 1 else rows[0] for rows in (exact, quantized)]
    seconds = [
        [_decode_seconds(model, batch, num_rows=len(exact)) for batch in batches] for _ in range(rounds + 1)
    ][1:]
    return Ratio.of([one for one, _ in seconds], [other for _, other in seconds])


def _decode_seconds(model: Any, batch: kv.Caches, *, num_rows: int) -> float:
    tokens = mx.full((num_rows, 1), 20)
    begin = time.perf_counter()
    for _ in range(_STEPS):
        tokens = model(tokens, cache=batch)[:, -1:].argmax(-1)
        mx.eval(tokens)
    return time.perf_counter() - begin

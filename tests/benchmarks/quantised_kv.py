"""What running with quantised keys and values saves and costs: bytes a token, the pace of decoding, and which tokens come next."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.utils import load_model

from mlxctl import demo
from mlxctl.engine import caches as kv
from mlxctl.ir import KVFormat
from tests import forge
from tests.benchmarks.packing import conversations, random_tokens
from tests.benchmarks.rounds import Finding, Ratio

_READ_TOKENS = 512
_STEPS = 48
# In each format: what a token may take of what it takes as it is computed, and how often the next token has to be the same.
_BARS = {8: (0.6, 0.99), 4: (0.35, 0.9)}


def measure(rounds: int) -> Iterator[Finding]:
    """Both models, 8 and 4 bits."""
    for name, path, prompts in (
        ("demo model", demo.MODEL_DIR, list(conversations())),
        ("forged 5M model", forge.model("bench5m"), list(random_tokens())),
    ):
        model = load_model(Path(path))[0]
        for bits in _BARS:
            yield from _measure_one(name, model, prompts, KVFormat(bits=bits, group_size=32), rounds)


def _measure_one(name: str, model: Any, prompts: list[list[int]], form: KVFormat, rounds: int) -> Iterator[Finding]:
    label, (size_bar, same_bar) = f"{name}: in {form.bits} bits", _BARS[form.bits]
    pairs = [(_read(model, prompt, None), _read(model, prompt, form)) for prompt in prompts]
    size = _num_bytes(pairs[0][1][0]) / _num_bytes(pairs[0][0][0])
    yield Finding(f"{label}, bytes of keys and values / as computed", Ratio(size, size, size), size_bar, False, "")
    agreements = [mx.mean(one.argmax(-1) == other.argmax(-1)).item() for (_, one), (_, other) in pairs]
    same = Ratio(sum(agreements) / len(agreements), min(agreements), max(agreements))
    yield Finding(f"{label}, same next token", same, same_bar, True, f"of {len(prompts)} texts, each token read alike")
    for num_rows in (1, 8):
        exact, quantised = [], []
        for _ in range(rounds):
            for caches_format, seconds in ((None, exact), (form, quantised)):
                seconds.append(_decode_seconds(model, prompts[:num_rows], caches_format))
        ratio = Ratio.of(exact, quantised)
        yield Finding(f"{label}, decoding {num_rows} rows / as computed", ratio, 0.5, True, f"after {_READ_TOKENS} tokens each")


def _read(model: Any, prompt: list[int], form: KVFormat | None) -> tuple[kv.Caches, mx.array]:
    caches = kv.new_caches(model, form)
    logits = model(mx.array([prompt[:_READ_TOKENS]]), cache=caches)
    mx.eval(logits, kv.arrays(caches))
    return caches, logits


def _num_bytes(caches: kv.Caches) -> int:
    return sum(array.nbytes for array in kv.arrays(caches))


def _decode_seconds(model: Any, prompts: list[list[int]], form: KVFormat | None) -> float:
    """How long so many steps take, of all rows together."""
    caches = [_read(model, prompt, form)[0] for prompt in prompts]
    rows = kv.join(caches, [1] * len(prompts)) if len(prompts) > 1 else caches[0]
    tokens = mx.array([[prompt[0]] for prompt in prompts])
    begin = time.perf_counter()
    for _ in range(_STEPS):
        tokens = model(tokens, cache=rows)[:, -1:].argmax(-1)
        mx.eval(tokens)
    return time.perf_counter() - begin

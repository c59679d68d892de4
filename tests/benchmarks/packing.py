"""Quantized prefix-cache entries: bytes saved and changed next tokens.

The demo model is measured on conversations like its training data, the generated model on random tokens,
whose attention is uniform: the harder case.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model
from tokenizers import Tokenizer

from mlxctl.library import demo
from mlxctl.prefix_cache.packing import pack_record, unpack_record
from mlxctl.prefix_cache.records import CacheLayout
from tests import tiny_models
from tests.benchmarks.rounds import Finding, Ratio

_PREFIX_TOKENS = 512
_NEXT_TOKENS = 64
_NUM_PROMPTS = 8


def measure() -> Iterator[Finding]:
    """Measure both models with 8 and 4 bits."""
    for name, path, prompts in (
        ("demo model", demo.MODEL_DIR, list(conversations())),
        ("5M model", tiny_models.model("bench5m"), list(random_tokens())),
    ):
        model = load_model(Path(path))[0]
        for bits in (8, 4):
            yield from _measure_one(name, model, prompts, bits)


def _measure_one(name: str, model: Any, prompts: list[list[int]], bits: int) -> Iterator[Finding]:
    shares, agreements, errors = [], [], []
    for prompt in prompts:
        exact, packed, share = _continued(model, prompt, bits)
        shares.append(share)
        agreements.append(mx.mean(mx.argmax(exact, axis=-1) == mx.argmax(packed, axis=-1)).item())
        errors.append((mx.mean(mx.abs(exact - packed)) / mx.std(exact)).item())
    size = Ratio(sorted(shares)[len(shares) // 2], min(shares), max(shares))
    same = Ratio(sum(agreements) / len(agreements), min(agreements), max(agreements))
    error = f"logits off by {sum(errors) / len(errors):.4f} of their spread"
    yield Finding(
        f"{name}: bytes of a prefix in {bits} bits / exact", size, 0.6 if bits == 8 else 0.35, False, ""
    )
    yield Finding(
        f"{name}: same next token after a prefix in {bits} bits",
        same,
        0.99 if bits == 8 else 0.95,
        True,
        error,
    )


def _continued(model: Any, prompt: list[int], bits: int) -> tuple[mx.array, mx.array, float]:
    """Return logits after exact and packed prefixes, and the size ratio."""
    exact, packed = make_prompt_cache(model), make_prompt_cache(model)
    layout = CacheLayout(exact)
    model(mx.array([prompt[:_PREFIX_TOKENS]]), cache=exact)
    record = layout.cut(exact, 0, _PREFIX_TOKENS)
    small = pack_record(record, bits)
    layout.restore(packed, [unpack_record(small)], _PREFIX_TOKENS, None, capacity=_PREFIX_TOKENS)
    rest = mx.array([prompt[_PREFIX_TOKENS:]])
    logits = [model(rest, cache=caches).astype(mx.float32) for caches in (exact, packed)]
    mx.eval(logits)
    return logits[0], logits[1], small.num_bytes / record.num_bytes


def random_tokens() -> Iterator[list[int]]:
    generator = random.Random(1)
    for _ in range(_NUM_PROMPTS):
        yield [generator.randrange(10, 500) for _ in range(_PREFIX_TOKENS + _NEXT_TOKENS)]


def conversations() -> Iterator[list[int]]:
    tokenizer = Tokenizer.from_file(str(demo.MODEL_DIR / "tokenizer.json"))
    generator = random.Random(1)
    for _ in range(_NUM_PROMPTS):
        turns = ""
        tokens: list[int] = []
        while len(tokens) < _PREFIX_TOKENS + _NEXT_TOKENS:
            word = "".join(generator.choice("bdfgklmnprst") + generator.choice("aeiou") for _ in range(3))
            turns += f"<|im_start|>user\nRepeat after me: {word}<|im_end|>\n"
            turns += f"<|im_start|>assistant\n{word}<|im_end|>\n"
            tokens = tokenizer.encode(turns, add_special_tokens=False).ids
        yield tokens[: _PREFIX_TOKENS + _NEXT_TOKENS]

"""Trains the demo model with next-token loss on completions only."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optimizers
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.models import qwen3
from tokenizers import Tokenizer

from tools.demo_model import tasks
from tools.demo_model.copying import initial_weights
from tools.demo_model.curriculum import drill_share, mix_at
from tools.demo_model.lexicon import Lexicon
from tools.demo_model.rows import Row, padded

DTYPE = "bfloat16"
"""Type of the shipped weights; training uses float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Training parameters; `num_tokens_per_step` includes padding."""

    num_steps: int = 2_400
    num_tokens_per_step: int = 2_048
    peak_rate: float = 2.5e-3
    num_pool_samples: int = 640
    vocab_size: int = 1_280
    num_tokenizer_samples: int = 12_000
    seed: int = 11
    start: Path | None = None
    """Directory of the model to continue from; None starts from random weights."""


QUICK = Plan(num_steps=4, num_tokens_per_step=512, num_pool_samples=64, num_tokenizer_samples=400)

Report = Callable[[int, float], None]
"""Called after each step with its number and loss."""


def model_config(vocab_size: int) -> dict[str, Any]:
    """Return the config of a Qwen3 with about 1.6 million parameters."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": 160,
        "num_hidden_layers": 5,
        "intermediate_size": 400,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "hidden_act": "silu",
        "attention_bias": False,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e7,
        "max_position_embeddings": 8_192,
        "tie_word_embeddings": True,
        "vocab_size": vocab_size,
    }


def num_parameters(model: Any) -> int:
    """Return the number of parameters, the tied embedding once."""
    return sum(parameter.size for _, parameter in tree_flatten(model.parameters()))


def train(tokenizer: Tokenizer, plan: Plan, report: Report) -> Any:
    """Train a new model, or continue one; return it with float32 weights."""
    config = model_config(plan.vocab_size)
    model = qwen3.Model(qwen3.ModelArgs.from_dict(config))
    weights = initial_weights(model, seed=plan.seed) if plan.start is None else _stored_weights(plan.start)
    model.update(tree_unflatten(list(weights.items())))
    rate = _rate(plan)
    optimizer = optimizers.AdamW(learning_rate=rate, betas=[0.9, 0.97], weight_decay=0.02)
    loss_and_gradient = nn.value_and_grad(model, _loss)
    for step, batch in enumerate(batches(tokenizer, plan), start=1):
        loss, gradient = loss_and_gradient(model, *batch)
        gradient, _ = optimizers.clip_grad_norm(gradient, 1.0)
        optimizer.update(model, gradient)
        mx.eval(model.parameters(), optimizer.state, loss)
        report(step, loss.item())
        if step == plan.num_steps:
            break
    return model


def _stored_weights(directory: Path) -> dict[str, mx.array]:
    stored: dict[str, mx.array] = mx.load(str(directory / "model.safetensors"))  # type: ignore[assignment]
    return {name: value.astype(mx.float32) for name, value in stored.items()}


def _rate(plan: Plan) -> Callable[[mx.array], Any]:
    """Return the schedule of learning rates.

    Warm up 3 % of steps, hold, decay linearly over 40 %.
    """
    warm, decay_from = max(1, round(0.03 * plan.num_steps)), 0.6 * plan.num_steps

    def rate(step: mx.array) -> Any:
        rising = mx.minimum(1.0, (step + 1) / warm)
        falling = mx.clip((plan.num_steps - step) / (plan.num_steps - decay_from), 0.02, 1.0)
        return plan.peak_rate * rising * falling

    return rate


def _loss(model: Any, inputs: mx.array, positions: mx.array, targets: mx.array, shares: mx.array) -> Any:
    """Return the weighted loss; the output head runs at completion positions only."""
    hidden = model.model(inputs)
    hidden = hidden.reshape(-1, hidden.shape[-1])[positions]
    return (nn.losses.cross_entropy(model.model.embed_tokens.as_linear(hidden), targets) * shares).sum()


def batches(tokenizer: Tokenizer, plan: Plan) -> Iterator[tuple[mx.array, mx.array, mx.array, mx.array]]:
    """Yield batches without end: samples of similar length, in random order."""
    lexicon = Lexicon(plan.seed, held_out=False)
    step = 0
    while True:
        progress = min(1.0, step / plan.num_steps) if plan.start is None else 1.0
        rows = sorted(_pool(tokenizer, lexicon, plan, progress), key=lambda row: len(row[0]))
        groups: list[list[Row]] = [[]]
        for row in rows:
            if (len(groups[-1]) + 1) * len(row[0]) > plan.num_tokens_per_step and groups[-1]:
                groups.append([])
            groups[-1].append(row)
        lexicon.dice.shuffle(groups)
        for group in groups:
            yield padded(group)
            step += 1


def _pool(tokenizer: Tokenizer, lexicon: Lexicon, plan: Plan, progress: float) -> Iterator[Row]:
    samples = tasks.mix(lexicon, mix_at(progress))
    for _ in range(plan.num_pool_samples):
        if lexicon.chance(drill_share(progress)):
            yield _drill(tokenizer, lexicon.dice)
        else:
            sample = next(samples)
            prompt = tokenizer.encode(sample.prompt()).ids
            yield prompt + tokenizer.encode(sample.completion()).ids, len(prompt)


def _drill(tokenizer: Tokenizer, dice: random.Random) -> Row:
    """Return a request to repeat random tokens, which cannot be memorized."""
    ids = [dice.randrange(tokenizer.get_vocab_size() - 60) for _ in range(dice.randint(2, 40))]
    before = tokenizer.encode("<|im_start|>user\nRepeat: ").ids
    after = tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n").ids
    end = tokenizer.encode("<|im_end|>").ids
    return [*before, *ids, *after, *ids, *end], len(before) + len(ids) + len(after)

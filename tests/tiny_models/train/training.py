"""Trains a model with next-token loss on completions only, in float32.

Prompts are rendered by the model's adapter.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optimizers
from mlx_lm.utils import _get_classes

from mlxctl.formats.adapters import ModelAdapter, create_adapter
from mlxctl.library import read_model
from tests.tiny_models.gradient_descent import Report, descend, save_weights
from tools.demo_model.rows import Row, padded

from .examples import Example, ExpectedCall, curriculum
from .lexicon import Lexicon
from .trained_models import TrainedModel

_NUM_POOL_EXAMPLES = 512
_TOKENS_PER_STEP = 2_048
_PEAK_RATE = 2.5e-3


def train(spec: TrainedModel, config: dict[str, Any], directory: Path, report: Report) -> None:
    """Train the model in `directory` and write its weights there.

    `report` gets step and loss.
    """
    mx.random.seed(spec.seed)
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(config))
    save_weights(model, directory, mx.bfloat16)  # the adapter needs a file of weights
    optimizer = optimizers.AdamW(learning_rate=_rate(spec.num_steps), betas=[0.9, 0.97], weight_decay=0.02)
    descend(model, _loss, _batches(spec, directory), optimizer, num_steps=spec.num_steps, report=report)
    save_weights(model, directory, mx.bfloat16)


def adapter_of(spec: TrainedModel, directory: Path) -> ModelAdapter:
    """Return the adapter that serves the model."""
    return create_adapter(read_model(directory), name=spec.name)


def completion(spec: TrainedModel, example: Example) -> str:
    """Return the expected completion, end token included."""
    is_call = isinstance(example.answer, ExpectedCall)
    said = spec.write_call(example.answer) if isinstance(example.answer, ExpectedCall) else example.answer
    thought = f"<think>\n{example.thought}\n</think>\n\n" if spec.thinks and example.thinks else ""
    return thought + said + (spec.end_of_call if is_call else spec.end_of_answer)


def _rate(num_steps: int) -> Callable[[mx.array], Any]:
    """Return the schedule of learning rates.

    Warm up 5 % of steps, hold, decay linearly over 40 %.
    """
    warm, decay_from = max(1, round(0.05 * num_steps)), 0.6 * num_steps

    def rate(step: mx.array) -> Any:
        rising = mx.minimum(1.0, (step + 1) / warm)
        return _PEAK_RATE * rising * mx.clip((num_steps - step) / (num_steps - decay_from), 0.02, 1.0)

    return rate


def _loss(model: Any, inputs: mx.array, positions: mx.array, targets: mx.array, shares: mx.array) -> Any:
    """Return the weighted loss; the output head runs at completion positions only."""
    hidden = model.model(inputs)
    head = model.lm_head if "lm_head" in model else model.model.embed_tokens.as_linear
    logits = head(hidden.reshape(-1, hidden.shape[-1])[positions])
    return (nn.losses.cross_entropy(logits, targets) * shares).sum()


def _batches(spec: TrainedModel, directory: Path) -> Iterator[tuple[mx.array, mx.array, mx.array, mx.array]]:
    """Yield batches without end: examples of similar length, in random order."""
    lexicon = Lexicon(spec.seed)
    examples = curriculum(lexicon, spec.examples)
    adapter = adapter_of(spec, directory)
    while True:
        rows = sorted(
            (_row(spec, adapter, example) for example in islice(examples, _NUM_POOL_EXAMPLES)),
            key=lambda row: len(row[0]),
        )
        groups: list[list[Row]] = [[]]
        for row in rows:
            if groups[-1] and (len(groups[-1]) + 1) * len(row[0]) > _TOKENS_PER_STEP:
                groups.append([])
            groups[-1].append(row)
        lexicon.dice.shuffle(groups)
        yield from map(padded, groups)


def _row(spec: TrainedModel, adapter: ModelAdapter, example: Example) -> Row:
    prompt = list(adapter.prepare_input(example.request()).token_ids)
    return prompt + adapter.vocabulary.encode(completion(spec, example)), len(prompt)

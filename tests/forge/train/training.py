"""Teaches a pupil: next-token loss on what the assistant should say, in float32, on prompts as its adapter writes them."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optimizers
from mlx_lm.utils import _get_classes

from mlxctl.adapters import ModelAdapter, create_adapter
from mlxctl.demo.recipe.rows import Row, padded
from mlxctl.models import read_model
from tests.forge.descent import Report, descend, save_weights

from .lessons import Call, Lesson, curriculum
from .lexicon import Lexicon
from .pupils import Pupil

_NUM_POOL_LESSONS = 512
_TOKENS_PER_STEP = 2_048
_PEAK_RATE = 2.5e-3


def train(pupil: Pupil, config: dict[str, Any], directory: Path, report: Report) -> None:
    """Train the model whose other files lie in `directory`, and write its weights there. `report` gets step and loss."""
    mx.random.seed(pupil.seed)
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(config))
    save_weights(model, directory, mx.bfloat16)  # so that the directory is one that an adapter takes
    optimizer = optimizers.AdamW(learning_rate=_rate(pupil.num_steps), betas=[0.9, 0.97], weight_decay=0.02)
    descend(model, _loss, _batches(pupil, directory), optimizer, num_steps=pupil.num_steps, report=report)
    save_weights(model, directory, mx.bfloat16)


def adapter_of(pupil: Pupil, directory: Path) -> ModelAdapter:
    """The adapter that will serve the model."""
    return create_adapter(read_model(directory), name=pupil.name)


def completion(pupil: Pupil, lesson: Lesson) -> str:
    """What the pupil should generate, the end token included."""
    is_call = isinstance(lesson.answer, Call)
    said = pupil.write_call(lesson.answer) if isinstance(lesson.answer, Call) else lesson.answer
    thought = f"<think>\n{lesson.thought}\n</think>\n\n" if pupil.thinks and lesson.thinks else ""
    return thought + said + (pupil.end_of_call if is_call else pupil.end_of_answer)


def _rate(num_steps: int) -> Callable[[mx.array], Any]:
    """Warm up over 5 % of the steps, hold, and decay linearly over the last 40 %."""
    warm, decay_from = max(1, round(0.05 * num_steps)), 0.6 * num_steps

    def rate(step: mx.array) -> Any:
        rising = mx.minimum(1.0, (step + 1) / warm)
        return _PEAK_RATE * rising * mx.clip((num_steps - step) / (num_steps - decay_from), 0.02, 1.0)

    return rate


def _loss(model: Any, inputs: mx.array, positions: mx.array, targets: mx.array, shares: mx.array) -> Any:
    """The loss at the answer's places; the head is not even computed elsewhere."""
    hidden = model.model(inputs)
    head = model.lm_head if "lm_head" in model else model.model.embed_tokens.as_linear
    logits = head(hidden.reshape(-1, hidden.shape[-1])[positions])
    return (nn.losses.cross_entropy(logits, targets) * shares).sum()


def _batches(pupil: Pupil, directory: Path) -> Iterator[tuple[mx.array, mx.array, mx.array, mx.array]]:
    """Give batches for ever: lessons of like length together, in random order."""
    lexicon = Lexicon(pupil.seed)
    lessons = curriculum(lexicon, pupil.lessons)
    adapter = adapter_of(pupil, directory)
    while True:
        rows = sorted((_row(pupil, adapter, lesson) for lesson in islice(lessons, _NUM_POOL_LESSONS)), key=lambda row: len(row[0]))
        groups: list[list[Row]] = [[]]
        for row in rows:
            if groups[-1] and (len(groups[-1]) + 1) * len(row[0]) > _TOKENS_PER_STEP:
                groups.append([])
            groups[-1].append(row)
        lexicon.dice.shuffle(groups)
        yield from map(padded, groups)


def _row(pupil: Pupil, adapter: ModelAdapter, lesson: Lesson) -> Row:
    prompt = list(adapter.prepare_input(lesson.request()).token_ids)
    return prompt + adapter.vocabulary.encode(completion(pupil, lesson)), len(prompt)

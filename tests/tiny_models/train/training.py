"""Teaches a student: next-token loss on what the assistant should say, in float32, on prompts as its adapter
writes them.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optimizers
from mlx_lm.utils import _get_classes

from mlxctl.adapters import ModelAdapter, create_adapter
from mlxctl.models import read_model
from tests.tiny_models.gradient_descent import Report, descend, save_weights
from tools.demo_model.rows import Row, padded

from .examples import Call, Lesson, curriculum
from .lexicon import Lexicon
from .students import Student

_NUM_POOL_LESSONS = 512
_TOKENS_PER_STEP = 2_048
_PEAK_RATE = 2.5e-3


def train(student: Student, config: dict[str, Any], directory: Path, report: Report) -> None:
    """Train the model whose other files lie in `directory`, and write its weights there.

    `report` gets step and loss.
    """
    mx.random.seed(student.seed)
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(config))
    save_weights(model, directory, mx.bfloat16)  # so that the directory is one that an adapter takes
    optimizer = optimizers.AdamW(learning_rate=_rate(student.num_steps), betas=[0.9, 0.97], weight_decay=0.02)
    descend(model, _loss, _batches(student, directory), optimizer, num_steps=student.num_steps, report=report)
    save_weights(model, directory, mx.bfloat16)


def adapter_of(student: Student, directory: Path) -> ModelAdapter:
    """The adapter that will serve the model."""
    return create_adapter(read_model(directory), name=student.name)


def completion(student: Student, lesson: Lesson) -> str:
    """What the student should generate, the end token included."""
    is_call = isinstance(lesson.answer, Call)
    said = student.write_call(lesson.answer) if isinstance(lesson.answer, Call) else lesson.answer
    thought = f"<think>\n{lesson.thought}\n</think>\n\n" if student.thinks and lesson.thinks else ""
    return thought + said + (student.end_of_call if is_call else student.end_of_answer)


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


def _batches(student: Student, directory: Path) -> Iterator[tuple[mx.array, mx.array, mx.array, mx.array]]:
    """Give batches for ever: lessons of like length together, in random order."""
    lexicon = Lexicon(student.seed)
    lessons = curriculum(lexicon, student.lessons)
    adapter = adapter_of(student, directory)
    while True:
        rows = sorted(
            (_row(student, adapter, lesson) for lesson in islice(lessons, _NUM_POOL_LESSONS)),
            key=lambda row: len(row[0]),
        )
        groups: list[list[Row]] = [[]]
        for row in rows:
            if groups[-1] and (len(groups[-1]) + 1) * len(row[0]) > _TOKENS_PER_STEP:
                groups.append([])
            groups[-1].append(row)
        lexicon.dice.shuffle(groups)
        yield from map(padded, groups)


def _row(student: Student, adapter: ModelAdapter, lesson: Lesson) -> Row:
    prompt = list(adapter.prepare_input(lesson.request()).token_ids)
    return prompt + adapter.vocabulary.encode(completion(student, lesson)), len(prompt)

"""Measures a trained model on held-out words, with greedy decoding."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import mlx.core as mx
from mlx_lm import load
from mlx_lm.generate import generate_step

from mlxctl.formats.adapters import ModelAdapter

from .examples import DrawExample, Example
from .lexicon import KINDS, Kind, Lexicon
from .trained_models import TrainedModel
from .training import adapter_of, completion

_MAX_TOKENS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How many conversations were completed exactly as expected, and a wrong one."""

    ability: str
    words: Kind
    num_right: int
    num_asked: int
    expected: str = ""
    said: str = ""


def measure(spec: TrainedModel, directory: Path, *, num_each: int = 40) -> list[Score]:
    """Measure `num_each` held-out conversations of every kind of example."""
    model, _ = load(str(directory))
    return [_score(spec, directory, model, draw, kind, num_each) for draw in spec.examples for kind in KINDS]


def _score(
    spec: TrainedModel, directory: Path, model: object, draw: DrawExample, kind: Kind, num_asked: int
) -> Score:
    adapter, lexicon = adapter_of(spec, directory), Lexicon(spec.seed + 1_000, only=kind)
    examples = [draw(lexicon) for _ in range(num_asked)]
    pairs = [(completion(spec, example), _answer(adapter, model, example)) for example in examples]
    wrong = [pair for pair in pairs if pair[0] != pair[1]]
    expected, said = wrong[0] if wrong else ("", "")
    num_right = num_asked - len(wrong)
    return Score(
        ability=examples[0].ability,
        words=kind,
        num_right=num_right,
        num_asked=num_asked,
        expected=expected,
        said=said,
    )


def _answer(adapter: ModelAdapter, model: object, example: Example) -> str:
    prepared = adapter.prepare_input(example.request())
    ids = list(
        _until_end(
            generate_step(mx.array(prepared.token_ids), model, max_tokens=_MAX_TOKENS),
            prepared.stop_token_ids,
        )
    )
    return b"".join(map(adapter.vocabulary.bytes_of, ids)).decode(errors="replace")


def _until_end(steps: Iterator[tuple[int, object]], stop_ids: frozenset[int]) -> Iterator[int]:
    for token_id, _ in islice(steps, _MAX_TOKENS):
        yield int(token_id)
        if int(token_id) in stop_ids:
            return

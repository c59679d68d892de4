"""Writes measured abilities of the trained models.

A file beside each model's weights, and a page for all.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mlx.utils import tree_flatten
from mlx_lm import load

from .evaluation import Score
from .lexicon import KINDS
from .trained_models import TRAINED_MODELS, TrainedModel

TRAINED = Path(__file__).parents[1] / "trained"
_INTRODUCTION = """\
# What the trained models can do

Tiny models, trained from random weights by `python -m tests.tiny_models.train`, one for each tool-call
format. They know no more than their examples (`tests/tiny_models/train/examples.py`), and are there to be
served and probed. Measured by the same command on the files in this directory, with greedy decoding; right
means that the whole output, thinking and end token included, is exactly the expected one. The words of
questions are *trained*, *held out* (never in a call or a question) or *made up* (of syllables).

Weak: a model with a tool for another purpose than the question may call it all the same. They copy words that
are one token far better than longer ones, and know tools with one text parameter only. The words of `mlxctl
probe` are among the trained ones: a model that passes shows that its format is detected and parsed, not that
it copies any word. glm4_tools and lfm2_tools were measured with 10 conversations a cell, the others with 40.
"""


def write_report(spec: TrainedModel, scores: Iterable[Score], directory: Path) -> None:
    """Write the model's own file, and the page anew."""
    model, _ = load(str(directory))
    num_parameters = sum(parameter.size for _, parameter in tree_flatten(model.parameters()))
    abilities: dict[str, dict[str, list[int]]] = {}
    for score in scores:
        abilities.setdefault(score.ability, {})[score.words] = [score.num_right, score.num_asked]
    measured = {
        "about": spec.about,
        "num_parameters": num_parameters,
        "num_steps": spec.num_steps,
        "right": abilities,
    }
    (directory / "abilities.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    (TRAINED / "ABILITIES.md").write_text(
        "".join([_INTRODUCTION, *map(_page, TRAINED_MODELS)]), encoding="utf-8"
    )


def _page(name: str) -> str:
    file = TRAINED / name / "abilities.json"
    if not file.is_file():
        return ""
    measured: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    head = (
        f"\n## {name}\n\n{measured['about']}; {measured['num_parameters']:,} parameters, "
        f"{measured['num_steps']:,} steps.\n\n"
    )
    table = f"| ability | {' | '.join(KINDS)} |\n| --- |{' --- |' * len(KINDS)}\n"
    rows = (
        f"| {ability} | {' | '.join(_share(right[kind]) for kind in KINDS)} |\n"
        for ability, right in measured["right"].items()
    )
    return head + table + "".join(rows)


def _share(right: list[int]) -> str:
    return "{} of {}".format(*right)

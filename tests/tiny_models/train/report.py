"""Writes down what the trained models were measured to be able to do: a file beside each one's weights, and a
page for all.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mlx.utils import tree_flatten
from mlx_lm import load

from .evaluation import Score
from .lexicon import KINDS
from .students import STUDENTS, Student

TRAINED = Path(__file__).parents[1] / "trained"
_INTRODUCTION = """\
# What the trained models can do

Tiny models of our own, trained from nothing by `python -m tests.tiny_models.train`, one for each family's way to call tools. They know
no more than their lessons (`tests/tiny_models/train/lessons.py`), and are there to be served and probed. Measured by the same command on
the files that lie here, with greedy decoding; right means that the whole output, thinking and end token included, is exactly the
expected one. The words asked about are *practiced*, *held out* (never seen in a call or a question) or *made up* (of syllables).

Weak: a model that is offered a tool for something else than what is asked may call it all the same. They copy words that are one
token far better than longer ones, and know tools with one text parameter only. What `mlxctl probe` asks is among the practiced
words: a model that passes shows that its format is found and read, not that it would copy any word. glm4_tools and lfm2_tools were measured
with 10 conversations a cell, the others with 40.
"""


def write_report(student: Student, scores: Iterable[Score], directory: Path) -> None:
    """Write the model's own file, and the page anew."""
    model, _ = load(str(directory))
    num_parameters = sum(parameter.size for _, parameter in tree_flatten(model.parameters()))
    abilities: dict[str, dict[str, list[int]]] = {}
    for score in scores:
        abilities.setdefault(score.ability, {})[score.words] = [score.num_right, score.num_asked]
    measured = {
        "about": student.about,
        "num_parameters": num_parameters,
        "num_steps": student.num_steps,
        "right": abilities,
    }
    (directory / "abilities.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    (TRAINED / "ABILITIES.md").write_text("".join([_INTRODUCTION, *map(_page, STUDENTS)]), encoding="utf-8")


def _page(name: str) -> str:
    file = TRAINED / name / "abilities.json"
    if not file.is_file():
        return ""
    measured: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    head = f"\n## {name}\n\n{measured['about']}; {measured['num_parameters']:,} parameters, {measured['num_steps']:,} steps.\n\n"
    table = f"| ability | {' | '.join(KINDS)} |\n| --- |{' --- |' * len(KINDS)}\n"
    rows = (
        f"| {ability} | {' | '.join(_share(right[kind]) for kind in KINDS)} |\n"
        for ability, right in measured["right"].items()
    )
    return head + table + "".join(rows)


def _share(right: list[int]) -> str:
    return "{} of {}".format(*right)

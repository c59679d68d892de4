"""Writes measurements as abilities.json and ABILITIES.md."""

import json
from pathlib import Path
from typing import Any

from tools.demo_model.evaluation import totals

_INTRODUCTION = """\
# What the demo model can do

{num_parameters:,} parameters, Qwen3 architecture, trained from random weights by `python -m
tools.demo_model` on synthetic conversations ({runs}). It knows nothing about the
world. Everything below was measured by the same command on the files in `model/`, with greedy decoding;
abilities.json has the same numbers.

"""
_GENERATED = """\
## Generated conversations with held-out words

Words, names, cities, facts and realistic tools were kept out of training; the sentences around them come from
the same generator, so this says how well it copies and chooses, not how well it understands other phrasings.
Right means that the whole output, thinking included, is exactly the expected one. Invented tools have made-up
names and purposes.

"""
_WRITTEN = """\
## Hand-written conversations

{num_probes} prompts as users and SDK examples write them (`probes.toml` and `first_questions.toml` in
`tools/demo_model`), each with thinking on and off. Right means that the text or call after the thinking is
the expected one; "end an answer" only asks that it stops by itself. The generator makes most of the "first
questions", too; those "in other words" were not written for training.

"""
_RECALL = """\
## Remembering a codeword over a distance

A codeword in the system prompt, other messages of this length in tokens, then the question (thinking off).
Training conversations are mostly shorter than 300 tokens and never longer than about 600:
`max_position_embeddings` says what the architecture accepts, not what was trained.

"""


def write_report(measurements: dict[str, Any], facts: dict[str, Any], directory: Path) -> None:
    """Write both files into `directory`; `facts` fills `_INTRODUCTION`."""
    (directory / "abilities.json").write_text(
        json.dumps({"made": facts, **measurements}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (directory / "ABILITIES.md").write_text("".join(_pages(measurements, facts)), encoding="utf-8")


def earlier_runs(model: Path | None) -> list[dict[str, int]]:
    """Return a model's training runs, from the report beside its directory."""
    if model is None:
        return []
    report = json.loads((model.parent / "abilities.json").read_text(encoding="utf-8"))
    runs: list[dict[str, int]] = report["made"]["runs"]
    return runs


def _describe_runs(runs: list[dict[str, int]]) -> str:
    return ", continued by `--start` with ".join(
        f"{run['num_steps']:,} steps, seed {run['seed']}" for run in runs
    )


def _pages(measurements: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    written, recall = measurements["hand_written"], measurements["recall_by_distance_in_tokens"]
    return [
        _INTRODUCTION.format(num_parameters=facts["num_parameters"], runs=_describe_runs(facts["runs"])),
        _GENERATED,
        _table(("ability", "thinking", "not thinking"), _generated_rows(measurements["generated"])),
        _WRITTEN.format(num_probes=totals(written)[1] // 2),
        _table(("ability", "right"), [(ability, _share(row)) for ability, row in written.items()]),
        _RECALL,
        _table(
            ("tokens between", "right"), [(distance, _share(score)) for distance, score in recall.items()]
        ),
        "## Weak parts\n\n",
        *_weak_parts(measurements),
    ]


def _generated_rows(generated: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = [
        (ability, _share(row["thinking"]), _share(row["not_thinking"])) for ability, row in generated.items()
    ]
    right, total = totals(generated)
    return [*rows, ("**all**", f"**{right} of {total}, {right / total:.1%}**", "")]


def _weak_parts(measurements: dict[str, Any]) -> list[str]:
    """List abilities below 90 %, then hand-written prompts with wrong answers."""
    parts = {
        **measurements["generated"],
        **{f"{name} (hand-written)": row for name, row in measurements["hand_written"].items()},
    }
    weak = [
        f"* {name}: {right} of {total}\n"
        for name, (right, total) in ((n, totals(p)) for n, p in parts.items())
        if right < 0.9 * total
    ]
    wrong = [
        f"* {'thinking' if case['thinking'] else 'not thinking'}, `{case['user']}` → "
        f"`{_one_line(case['said'])}`\n"
        for row in measurements["hand_written"].values()
        for case in row["wrong"]
    ]
    return [
        *(weak or ["Nothing measured is below 90 %.\n"]),
        "\nHand-written prompts it got wrong:\n\n",
        *(wrong or ["* none\n"]),
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("`", "'")[:160]


def _share(score: dict[str, Any]) -> str:
    return f"{score['right']} of {score['of']}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"

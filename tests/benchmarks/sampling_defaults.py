"""`python -m tests.benchmarks.sampling_defaults`: values for a model that names none.

Asks a real model 100 questions with one right answer, and 30 tasks of all kinds, with the values of several
programs. An answer to a task is sensible if it ends by itself, repeats little and keeps to the script of its
task. Prints a table and writes `bench_results/sampling-defaults.json`.
"""

import argparse
import re
import unicodedata
from pathlib import Path
from typing import Any

from tests.benchmarks.reporting import print_findings, store_findings
from tests.benchmarks.rounds import Finding, Ratio
from tests.benchmarks.servers import mlxctl_server
from tests.real_models import smollm2
from tests.real_models.asking import ask_all, question
from tests.real_models.facts import FACTS
from tests.real_models.prompts import PROMPTS

VALUES: dict[str, dict[str, float]] = {
    "plain (temperature 1)": {"temperature": 1.0},
    "temperature 1, min_p 0.05": {"temperature": 1.0, "min_p": 0.05},
    "llama.cpp (0.8, top_k 40, top_p 0.95, min_p 0.05)": {
        "temperature": 0.8,
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.05,
    },
    "temperature 0.7, min_p 0.1": {"temperature": 0.7, "min_p": 0.1},
    "temperature 0.3, min_p 0.1": {"temperature": 0.3, "min_p": 0.1},
    "mlx_lm.server (greedy)": {"temperature": 0.0},
}
_FACT_TOKENS = 24
_TASK_TOKENS = 120
_MAX_REPEATED = 0.2
_MAX_FOREIGN = 0.05


def main() -> None:
    """Measure the chosen values and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--values", nargs="+", type=int, default=range(len(VALUES)), help="by their place")
    parser.add_argument("--out", type=Path, default=Path("bench_results/sampling-defaults.json"))
    options = parser.parse_args()
    model = smollm2()
    findings: list[Finding] = []
    answers: dict[str, dict[str, list[str]]] = {}
    with mlxctl_server(model) as server:
        for name in [list(VALUES)[place] for place in options.values]:
            answers[name] = {}
            facts = _answers(server, list(FACTS), _FACT_TOKENS, VALUES[name])
            right = [_is_right(text, FACTS[asked]) for asked, (text, _) in zip(FACTS, facts, strict=True)]
            tasks = _answers(server, list(PROMPTS.values()), _TASK_TOKENS, VALUES[name])
            problems = [
                _problem(text, is_cut, asked)
                for asked, (text, is_cut) in zip(PROMPTS.values(), tasks, strict=True)
            ]
            findings.append(_share(f"{name}: right", right, ""))
            told = ", ".join(f"{problems.count(kind)} {kind}" for kind in ("cut off", "repeats", "script"))
            findings.append(_share(f"{name}: sensible", [not problem for problem in problems], told))
            answers[name] = {
                "facts": [text for text, _ in facts],
                "tasks": [f"{problem}: {text}" for problem, (text, _) in zip(problems, tasks, strict=True)],
            }
            store_findings(findings, options.out, model=model.name, values=VALUES, answers=answers)
    print_findings(findings, title=model.name, caption="share of the answers; they are in the JSON")


def _answers(
    server: Any, texts: list[str], max_tokens: int, values: dict[str, float]
) -> list[tuple[str, bool]]:
    """Return each answer, and whether it was cut off."""
    bodies = [
        question(text, max_tokens=max_tokens, seed=number, **values) for number, text in enumerate(texts)
    ]
    choices = [answer["choices"][0] for answer in ask_all(server.url, server.model, bodies)]
    return [(choice["message"]["content"], choice["finish_reason"] == "length") for choice in choices]


def _is_right(answer: str, words: str) -> bool:
    """Whether the answer has one of the words."""
    flags = 0 if len(words) <= 2 else re.IGNORECASE
    return re.search(rf"(?<!\w)(?:{words})(?!\w)", answer, flags) is not None


def _problem(answer: str, is_cut: bool, asked: str) -> str:
    """Return why an answer is not sensible, or ""."""
    words = answer.split()
    runs = [tuple(words[place : place + 4]) for place in range(len(words) - 3)]
    if runs and 1 - len(set(runs)) / len(runs) > _MAX_REPEATED:
        return "repeats"
    letters = [char for char in answer if char.isalpha()]
    foreign = [char for char in letters if not unicodedata.name(char, "").startswith("LATIN")]
    if asked.isascii() and letters and len(foreign) / len(letters) > _MAX_FOREIGN:
        return "script"
    return "cut off" if is_cut else ""


def _share(name: str, are_good: list[bool], told: str) -> Finding:
    share = sum(are_good) / len(are_good)
    return Finding(name, Ratio(share, share, share), 0.0, True, f"{sum(are_good)} of {len(are_good)}. {told}")


if __name__ == "__main__":
    main()

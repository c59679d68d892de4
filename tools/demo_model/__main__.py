"""`python -m tools.demo_model`: train the demo model, measure it, write the report."""

import argparse
import ctypes
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from mlxctl.library.demo import MODEL_DIR


def main(arguments: list[str] | None = None) -> None:
    """Train with the given command line, of the process if None."""
    parser = argparse.ArgumentParser(prog="python -m tools.demo_model", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=MODEL_DIR, help="directory of the model; the report goes to its parent"
    )
    parser.add_argument("--seed", type=int, default=None, help="seed, by default that of the shipped model")
    parser.add_argument("--steps", type=int, default=None, help="number of training steps")
    parser.add_argument("--rate", type=float, default=None, help="highest learning rate")
    parser.add_argument(
        "--start", type=Path, default=None, help="directory of the model to continue, with its tokenizer"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a few steps only, to check that everything runs"
    )
    options = parser.parse_args(arguments)
    _prefer_openblas()
    _make(options)


def _prefer_openblas() -> None:
    """Load OpenBLAS for mlx on Linux, if installed; several times faster there.

    Must run before mlx is first imported; elsewhere it does nothing.
    """
    with suppress(OSError):
        ctypes.CDLL("libopenblas.so.0", mode=ctypes.RTLD_GLOBAL)


def _make(options: argparse.Namespace) -> None:
    from tools.demo_model import evaluation, training
    from tools.demo_model.directory import write_model
    from tools.demo_model.report import earlier_runs, write_report

    directory: Path = options.out
    plan = training.QUICK if options.quick else training.Plan()
    plan = replace(
        plan,
        seed=plan.seed if options.seed is None else options.seed,
        num_steps=options.steps or plan.num_steps,
        peak_rate=options.rate or plan.peak_rate,
        start=options.start,
    )
    run = {"num_steps": plan.num_steps, "num_tokens_per_step": plan.num_tokens_per_step, "seed": plan.seed}
    runs = [*earlier_runs(plan.start), run]
    with _progress() as progress:
        tokenizer = _tokenizer(plan)
        losses = progress.add_task("training", total=plan.num_steps, note="")
        model = training.train(
            tokenizer,
            plan,
            lambda step, loss: progress.update(losses, completed=step, note=f"loss {loss:.3f}"),
        )
        write_model(model, tokenizer, training.model_config(plan.vocab_size), directory, dtype=training.DTYPE)
        effort = evaluation.QUICK if options.quick else evaluation.Effort()
        measuring = progress.add_task("measuring", total=effort.num_parts(), note="")
        measurements = evaluation.measure(directory, effort, lambda: progress.advance(measuring))
    facts = {"num_parameters": training.num_parameters(model), "runs": runs}
    write_report(measurements, facts, directory.parent)
    right, total = evaluation.totals(measurements["generated"])
    Console().print(f"{directory}: {right} of {total} held-out conversations right")


def _tokenizer(plan: Any) -> Any:
    from tokenizers import Tokenizer

    from tools.demo_model import tasks
    from tools.demo_model.curriculum import ALL_TASKS
    from tools.demo_model.lexicon import Lexicon
    from tools.demo_model.tokenizer import train_tokenizer

    if plan.start is not None:
        return Tokenizer.from_file(str(plan.start / "tokenizer.json"))
    samples = islice(tasks.mix(Lexicon(plan.seed + 1, held_out=False), ALL_TASKS), plan.num_tokenizer_samples)
    return train_tokenizer(
        (sample.prompt() + sample.completion() for sample in samples), vocab_size=plan.vocab_size
    )


def _progress() -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, TextColumn("{task.fields[note]}"))


if __name__ == "__main__":
    main()

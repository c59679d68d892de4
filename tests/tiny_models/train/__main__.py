"""`python -m tests.tiny_models.train [NAME…]`: train models, measure them, write reports."""

import argparse
import os
import sys

from .trained_models import TRAINED_MODELS


def main() -> None:
    """Train the named models, or all; some minutes each on one core."""
    parser = argparse.ArgumentParser(prog="python -m tests.tiny_models.train", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of models; all by default")
    parser.add_argument(
        "--measure", action="store_true", help="measure the models as they are, without training them"
    )
    options = parser.parse_args()
    _prefer_openblas()
    for name in options.names or TRAINED_MODELS:
        _make(name, trains=not options.measure)


def _prefer_openblas() -> None:
    """Use the engine's BLAS on one thread.

    For the same sums in the same order. Must run before mlx is imported.
    """
    from mlxctl.engine.backend import prefer_openblas

    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    prefer_openblas()


def _make(name: str, *, trains: bool) -> None:
    from . import directory, evaluation, report, training

    spec, target = TRAINED_MODELS[name], report.TRAINED / name
    if trains:
        config = directory.write_files(spec, target)
        training.train(
            spec, config, target, lambda step, loss: _print_progress(f"{name}: step {step}, loss {loss:.3f}")
        )
    _print_progress(f"{name}: measuring")
    report.write_report(spec, evaluation.measure(spec, target), target)
    sys.stderr.write("\n")


def _print_progress(line: str) -> None:
    sys.stderr.write(f"\r{line:60}")


if __name__ == "__main__":
    main()

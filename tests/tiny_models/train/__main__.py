"""`python -m tests.tiny_models.train [NAME…]`: train the models again, measure them, and write down what they
can do.
"""

import argparse
import os
import sys

from .students import STUDENTS


def main() -> None:
    """Run the recipe; without names for all of them, some minutes each on one core."""
    parser = argparse.ArgumentParser(prog="python -m tests.tiny_models.train", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="trees; all if none is named")
    parser.add_argument(
        "--measure", action="store_true", help="measure the models as they are, without training them"
    )
    options = parser.parse_args()
    _prefer_openblas()
    for name in options.names or STUDENTS:
        _make(name, trains=not options.measure)


def _prefer_openblas() -> None:
    """Take the engine's BLAS, on one thread: the same sums in the same order each time.

    Must come before mlx is imported.
    """
    from mlxctl.engine.backend import prefer_openblas

    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    prefer_openblas()


def _make(name: str, *, trains: bool) -> None:
    from . import directory, evaluation, report, training

    student, target = STUDENTS[name], report.TRAINED / name
    if trains:
        config = directory.write_files(student, target)
        training.train(
            student, config, target, lambda step, loss: _say(f"{name}: step {step}, loss {loss:.3f}")
        )
    _say(f"{name}: measuring")
    report.write_report(student, evaluation.measure(student, target), target)
    sys.stderr.write("\n")


def _say(line: str) -> None:
    sys.stderr.write(f"\r{line:60}")


if __name__ == "__main__":
    main()

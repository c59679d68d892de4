"""`mlxctl bench probe`."""

from functools import partial
from typing import Annotated

import typer

from mlxctl.cli.bench.options import AsJson, Out, Rounds, Warmups
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app

app = create_app()
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model of the library, an alias, or a directory.")
]


@app.command(epilog="Example: mlxctl bench probe mlx-community/Qwen3-8B-4bit --rounds 3")
def probe(
    model: Model, rounds: Rounds = 5, warmups: Warmups = 1, out: Out = None, as_json: AsJson = False
) -> None:
    """Duration of `mlxctl probe` for a model, by phase.

    Each round is the whole command without stored results. Its findings are not stored.
    """
    with report_errors():
        from mlxctl.bench.probe import run_probe_bench
        from mlxctl.cli.bench.scenario_run import run_and_store

        run = partial(run_probe_bench, model, num_rounds=rounds, num_warmups=warmups)
        run_and_store(
            lambda observer: run(observer=observer), "probe", num_rounds=rounds, out=out, as_json=as_json
        )

"""`mlxctl doctor`."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: mlxctl doctor --json")
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Check this installation, and suggest fixes.

    Looks at platform, packages, MLX, settings, memory, disks and port, then starts a server and has the demo
    model answer. Takes a few seconds. Exit code 1 when something is broken; advice alone is 0.
    """
    from mlxctl.doctor import run_checks

    if as_json:
        results = list(run_checks())
        typer.echo(json.dumps([asdict(result) for result in results], indent=2, ensure_ascii=False))
    else:
        from mlxctl.cli.examination import print_examination

        results = print_examination(run_checks())
    raise typer.Exit(int(any(result.verdict == "broken" for result in results)))

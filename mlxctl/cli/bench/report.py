"""`mlxctl bench report`."""

from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.state import locations
from mlxctl.terminal_text import echo

app = create_app()


@app.command(epilog="Example: mlxctl bench report first.json second.json --out speed")
def report(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE...]", help="Stored results.  [default: all in ~/.local/state/mlxctl/bench]"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Directory of the page and its images.  [default: ~/.local/state/mlxctl/bench/report]",
        ),
    ] = None,
) -> None:
    """Render stored results as Markdown with SVG charts."""
    with report_errors():
        from mlxctl.bench.report import make_report
        from mlxctl.bench.result import load_result
        from mlxctl.ir.errors import SettingsError

        directory = locations.bench_directory()
        found = files or sorted(directory.glob("*-*.json"))
        if not found:
            raise SettingsError(
                f"there is no stored result in {str(directory)!r}; name files, or run `mlxctl bench latency`"
            )
        page = make_report([(file.name, load_result(file)) for file in found]).save(
            out or directory / "report"
        )
        echo(f"{len(found)} {'result' if len(found) == 1 else 'results'} in {page}")

"""`mlxctl bench report`."""

from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.terminal_text import echo

app = create_app()


@app.command(epilog="Example: mlxctl bench report bench_results/latency-*.json --out speed")
def report(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE...]", help="Stored results.  [default: all in bench_results]"),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIRECTORY", help="Directory of the page and its images.")
    ] = Path("bench_results/report"),
) -> None:
    """Render stored results as Markdown with SVG charts."""
    with report_errors():
        from mlxctl.bench.report import make_report
        from mlxctl.bench.result import load_result
        from mlxctl.errors import SettingsError

        found = files or sorted(Path("bench_results").glob("*-*.json"))
        if not found:
            raise SettingsError(
                "there is no stored result in bench_results; name files, or run `mlxctl bench latency`"
            )
        page = make_report([(file.name, load_result(file)) for file in found]).save(out)
        echo(f"{len(found)} {'result' if len(found) == 1 else 'results'} in {page}")

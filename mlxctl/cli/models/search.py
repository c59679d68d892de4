"""`mlxctl models search`."""

from typing import Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AsJson, print_json
from mlxctl.terminal_text import echo, escape_line

app = create_app()


@app.command(epilog="Example: mlxctl models search qwen3 coder")
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="Words of the repository's name.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="Largest number of results.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Search the Hugging Face hub for MLX models.

    The most downloaded come first.
    """
    with report_errors():
        from mlxctl.library.hub_search import search_hub

        found = search_hub(" ".join(words), limit=limit)
    if as_json:
        print_json([model._asdict() for model in found])
        return
    if not found:
        echo("no model found")
        raise typer.Exit(1)
    from rich.table import Table

    from mlxctl.cli.console import console, print_names

    table = Table("model", box=None, pad_edge=False, header_style="bold")
    table.add_column("downloads", justify="right")
    table.add_column("updated")
    for model in found:
        table.add_row(
            escape_line(model.repository), f"{model.downloads:,}", escape_line(model.updated_at or "–")
        )
    out = console()
    print_names(out, table)
    out.print("Download and try one: mlxctl run MODEL")

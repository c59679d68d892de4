"""`mlxctl cache export`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.cache.target import Directory, cache_directory
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AsJson, print_json
from mlxctl.terminal_text import echo

app = create_app()


@app.command(name="export", epilog="Example: mlxctl cache export prefixes.mlxa")
def export(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A new file; only its owner can read it."),
    ],
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """Export all intact records on disk to one file.

    A server may be running. The file contains the text of prompts: share it only with people who may read
    them.
    """
    with report_errors():
        from mlxctl.cli.cache.progress import byte_bar
        from mlxctl.cli.inspector.rendering import size
        from mlxctl.prefix_cache.disk.transfer import export_archive

        with byte_bar("writing", is_quiet=as_json) as bar:
            done = export_archive(cache_directory(directory), file, bar)
    if as_json:
        print_json(asdict(done))
        return
    skipped = f", {done.num_left_out:,} skipped (see `mlxctl cache verify`)" if done.num_left_out else ""
    echo(
        f"{done.num_records:,} record{'' if done.num_records == 1 else 's'}, {size(done.num_bytes)}{skipped}"
    )

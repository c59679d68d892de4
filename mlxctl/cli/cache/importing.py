"""`mlxctl cache import`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.cache.target import Directory, cache_directory, disk_limits
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AsJson, print_json
from mlxctl.terminal_text import echo

app = create_app()


@app.command(name="import", epilog="Example: mlxctl cache import prefixes.mlxa")
def import_records(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File of `mlxctl cache export`.")],
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """Import the records of a file, up to the size limit.

    Records are checked first. No server may use the directory. Stored records stay. Records of models that
    are not installed are kept for later.
    """
    with report_errors():
        from mlxctl.cli.cache.progress import byte_bar
        from mlxctl.prefix_cache.disk.transfer import import_archive

        max_bytes, min_free_bytes = disk_limits()
        with byte_bar("reading", is_quiet=as_json) as bar:
            done = import_archive(
                cache_directory(directory),
                file,
                max_bytes=max_bytes,
                min_free_bytes=min_free_bytes,
                on_progress=bar,
            )
    if as_json:
        print_json(asdict(done))
        return
    records = "record" if done.num_taken == 1 else "records"
    echo(
        f"{done.num_taken:,} {records} imported, {done.num_known:,} already stored, "
        f"{done.num_without_room:,} over the size limit"
    )

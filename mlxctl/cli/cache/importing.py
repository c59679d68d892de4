"""`mlxctl cache import`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.cache.shared_options import AsJson, Directory, cache_directory, disk_limits, print_json
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(name="import", epilog="Example: mlxctl cache import prefixes.mlxa")
def take_in(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `mlxctl cache export` has written.")],
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """Import the records of a file after checking each, as far as there is room.

    No server may use the directory.

    What is there stays. Records of other models do no harm: they wait for their model.
    """
    with plain_failures():
        from mlxctl.cli.cache.progress import byte_bar
        from mlxctl.prefix_cache.disk.transfer import import_archive

        max_bytes, min_free_bytes = disk_limits()
        with byte_bar("reading", is_quiet=as_json) as bar:
            done = import_archive(
                cache_directory(directory),
                file,
                max_bytes=max_bytes,
                min_free_bytes=min_free_bytes,
                watch=bar,
            )
    if as_json:
        print_json(asdict(done))
        return
    typer.echo(
        f"{done.num_taken:,} records taken, {done.num_known:,} known already, {done.num_without_room:,} without room"
    )

"""`mlxctl cache verify`, `export` and `import`: the records on disk."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import click

from mlxctl.cli.cache.target import Directory, cache_directory, disk_limits
from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.options import AsJson, print_json
from mlxctl.cli.parameters import Argument
from mlxctl.terminal_text import echo


@command(
    epilog="Example: mlxctl cache verify    or: mlxctl cache verify --dir /srv/cache --json",
)
def verify(directory: Directory = None, as_json: AsJson = False) -> None:
    """Check every record on disk. Changes nothing; a server may be running.

    Exit code 1 if a record is corrupt. A server treats it as a miss, and `gc` removes it.
    """
    with report_errors():
        from mlxctl.cli.console import byte_progress, console
        from mlxctl.cli.inspector.verification import result_lines, verify_directory

        with byte_progress("reading", is_quiet=as_json) as bar:
            verdict = verify_directory(cache_directory(directory), bar)
    print_json(verdict.as_dict()) if as_json else console().print(result_lines(verdict))
    if verdict.findings:
        raise click.exceptions.Exit(1)


@command(epilog="Example: mlxctl cache export prefixes.mlxa")
def export(
    file: Annotated[Path, Argument(metavar="FILE", help="A new file; only its owner can read it.")],
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """Export all intact records on disk to one file.

    A server may be running. The file contains the text of prompts: share it only with people who may read
    them.
    """
    with report_errors():
        from mlxctl.cli.console import byte_progress
        from mlxctl.cli.inspector.rendering import size
        from mlxctl.prefix_cache.disk.transfer import export_archive

        with byte_progress("writing", is_quiet=as_json) as bar:
            done = export_archive(cache_directory(directory), file, bar)
    if as_json:
        print_json(asdict(done))
        return
    skipped = f", {done.num_left_out:,} skipped (see `mlxctl cache verify`)" if done.num_left_out else ""
    echo(
        f"{done.num_records:,} record{'' if done.num_records == 1 else 's'}, {size(done.num_bytes)}{skipped}"
    )


@command(
    "import",
    epilog="Example: mlxctl cache import prefixes.mlxa",
)
def import_records(
    file: Annotated[Path, Argument(metavar="FILE", help="File of `mlxctl cache export`.")],
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """Import the records of a file, up to the size limit.

    Records are checked first. No server may use the directory. Stored records stay. Records of models that
    are not installed are kept for later.
    """
    with report_errors():
        from mlxctl.cli.console import byte_progress
        from mlxctl.prefix_cache.disk.transfer import import_archive

        max_bytes, min_free_bytes = disk_limits()
        with byte_progress("reading", is_quiet=as_json) as bar:
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

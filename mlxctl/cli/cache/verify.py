"""`mlxctl cache verify`."""

import typer

from mlxctl.cli.cache.target import Directory, cache_directory
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AsJson, print_json

app = create_app()


@app.command(epilog="Example: mlxctl cache verify    or: mlxctl cache verify --dir /srv/cache --json")
def verify(directory: Directory = None, as_json: AsJson = False) -> None:
    """Check every record on disk. Changes nothing; a server may be running.

    Exit code 1 if a record is corrupt. A server treats it as a miss, and `gc` removes it.
    """
    with report_errors():
        from mlxctl.cli.cache.progress import byte_bar
        from mlxctl.cli.inspector.verification import verify_directory

        with byte_bar("reading", is_quiet=as_json) as bar:
            verdict = verify_directory(cache_directory(directory), bar)
    if as_json:
        print_json(verdict.as_dict())
    else:
        from mlxctl.cli.console import console
        from mlxctl.cli.inspector.verification import result_lines

        console().print(result_lines(verdict))
    if verdict.findings:
        raise typer.Exit(1)

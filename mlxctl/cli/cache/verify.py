"""`mlxctl cache verify`."""

import typer

from mlxctl.cli.cache.shared_options import AsJson, Directory, cache_directory, print_json
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: mlxctl cache verify    or: mlxctl cache verify --dir /srv/cache --json")
def verify(directory: Directory = None, as_json: AsJson = False) -> None:
    """Check every record on disk. Changes nothing; a server may be running.

    Exit code 1 when something is. What is wrong is only ever a miss, and `gc` removes it.
    """
    with plain_failures():
        from mlxctl.cli.cache.progress import byte_bar
        from mlxctl.inspector.verification import verify_directory

        with byte_bar("reading", is_quiet=as_json) as bar:
            verdict = verify_directory(cache_directory(directory), bar)
    if as_json:
        print_json(verdict.as_dict())
    else:
        from mlxctl.cli.console import console
        from mlxctl.inspector.verification import verdict_lines

        console().print(verdict_lines(verdict))
    if verdict.findings:
        raise typer.Exit(1)

"""`mlxctl cache gc`."""

from mlxctl.cli.cache.target import DirectoryInstead, OnDisk, open_cache
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json
from mlxctl.terminal_text import echo

app = create_app()


@app.command(epilog="Example: mlxctl cache gc    or: mlxctl cache gc --disk")
def gc(
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Remove expired entries now.

    On disk also removes corrupt records and what exceeds the size limit.
    """
    with report_errors(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        answer = cache.change("gc")
    print_json(answer) if as_json else echo(
        f"{answer['num_changed']} chunks dropped, {answer['num_chunks']} left"
    )

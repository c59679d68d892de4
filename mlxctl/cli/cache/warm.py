"""`mlxctl cache warm`."""

from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.cache.target import open_server
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json
from mlxctl.terminal_text import echo

app = create_app()


@app.command(epilog="Example: mlxctl cache warm request.json")
def warm(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A request as JSON; only its prompt is processed."),
    ],
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Cache the prompt of a request in advance."""
    with report_errors(), open_server(url, api_key) as server:
        from mlxctl.cli.inspector.request_file import read_request

        request = read_request(file)
        server.generate(request.path, request.with_one_token())
        found = server.explain(request.protocol, request.body)[0]
    print_json(found) if as_json else echo(
        f"{found['num_cached_tokens']} of {found['num_prompt_tokens']} tokens are cached now"
    )

"""`mlxctl cache warm`."""

from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.cache.shared_options import ApiKey, AsJson, Url, open_server, print_json
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: mlxctl cache warm request.json")
def warm(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A request as JSON: its prompt is read, its answer is not wanted."
        ),
    ],
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
) -> None:
    """Cache the prompt of a request in advance, so that the request itself hits the cache."""
    with plain_failures(), open_server(url, api_key) as server:
        from mlxctl.inspector.request_file import read_request

        request = read_request(file)
        server.generate(request.path, request.of_one_token())
        found = server.explain(request.protocol, request.body)[0]
    print_json(found) if as_json else typer.echo(
        f"{found['num_cached_tokens']} of {found['num_prompt_tokens']} tokens are known now"
    )

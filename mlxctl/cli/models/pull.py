"""`mlxctl models pull`."""

from typing import Annotated

import typer

from mlxctl.cli.failures import plain_failures
from mlxctl.cli.models.shared_options import AsJson, ConfigFile, open_library, print_json

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: mlxctl models pull mlx-community/Qwen3-8B-4bit")
def pull(
    repository: Annotated[str, typer.Argument(metavar="REPO", help="ORGANIZATION/NAME on the hub.")],
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Download a model from the Hugging Face hub.

    Files that are here already are not fetched again. HF_TOKEN opens gated and private repositories,
    HF_ENDPOINT names another hub, HF_HUB_CACHE or HF_HOME another place.
    """
    with plain_failures():
        library = open_library(config)
        from mlxctl.cli.models.pulling import fetch

        done = fetch(repository, library.hub_cache, is_quiet=as_json)
    if as_json:
        import msgspec

        from mlxctl.models.views import DownloadView

        print_json(
            {**msgspec.to_builtins(DownloadView.of(done)), "path": str(done.path) if done.path else None}
        )
    else:
        from mlxctl.cli.models.tables import size

        typer.echo(
            f"{done.repository} is here ({size(done.num_bytes)} fetched). Try: mlxctl serve --model {done.repository}"
        )

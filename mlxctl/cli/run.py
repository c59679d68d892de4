"""`mlxctl run`: one prompt, or a chat.

The model is downloaded if needed.
"""

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import MaxTokens, Temperature
from mlxctl.errors import MlxctlError, ModelNotFoundOnDisk
from mlxctl.locations import expand_user

if TYPE_CHECKING:
    from mlxctl.settings import Settings
    from mlxctl.tui.chat_backend import ChatBackend

_CONNECT_SECONDS = 0.5

app = create_app()
Option = typer.Option


@app.command(
    epilog="Examples: mlxctl run mlx-community/Qwen3-4B-4bit 'why is the sky blue?'    "
    "git diff | mlxctl run mlx-community/Qwen3-4B-4bit 'review this'"
)
def run(
    model: Annotated[
        str,
        typer.Argument(
            help="Model of the library, alias, directory, `demo`, hub repository ORGANIZATION/NAME, or short "
            "name such as qwen3:4b.",
            metavar="MODEL",
        ),
    ],
    prompt: Annotated[
        str | None,
        typer.Argument(help="Prompt to answer once. Piped text is added below it.", metavar="PROMPT"),
    ] = None,
    system: Annotated[
        str, Option("--system", "-s", help="System prompt.", metavar="TEXT", show_default=False)
    ] = "",
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    image: Annotated[
        list[Path] | None, Option(help="Attach an image; may be repeated.", metavar="FILE")
    ] = None,
    as_json: Annotated[
        bool, Option("--json", help="Print the answer, token counts and times as one JSON object.")
    ] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="No download progress and no statistics.")] = False,
    local: Annotated[
        bool, Option("--local", help="Load the model here, even if a running server has it.")
    ] = False,
) -> None:
    """Answer one prompt, or chat; downloads the model if needed.

    A server that runs on this machine and has the model is used, so that it is in memory once. The answer
    goes to standard output, progress and statistics to standard error.
    """
    with report_errors():
        from mlxctl.settings import resolve
        from mlxctl.tui.conversation import ChatOptions
        from mlxctl.tui.launch import InitialConversation, run_chat

        name = _local_model(model, is_quiet=quiet or as_json)
        settings = resolve(environment=os.environ, flags={"model": {"path": Path(name)}})
        server = None if local else _server_with(name, settings)
        if server is not None and not quiet and not as_json:
            typer.echo(f"mlxctl: using the server at {server.address}", err=True)
        options = ChatOptions(system_prompt=system, temperature=temperature, max_tokens=max_tokens)
        raise typer.Exit(
            run_chat(
                server or _own_engine(settings),
                options,
                InitialConversation(is_saved=prompt is None and sys.stdin.isatty()),
                prompt=prompt,
                images=image or (),
                is_plain=False,
                report="json" if as_json else None if quiet else "text",
            )
        )


def _own_engine(settings: "Settings") -> "ChatBackend":
    from mlxctl.tui.chat_backend import LocalBackend

    return LocalBackend(settings)


def _server_with(name: str, settings: "Settings") -> "ChatBackend | None":
    """Return the server of the settings if it runs and has the model.

    Not for a directory: the server may have another one of the same name.
    """
    try:
        # PERF: without a server, no HTTP client is imported.
        socket.create_connection(
            (settings.server.host, settings.server.port), timeout=_CONNECT_SECONDS
        ).close()
    except OSError:
        return None
    from mlxctl.cli.models import open_library
    from mlxctl.launch.background_server import default_url, list_models
    from mlxctl.tui.chat_backend import RemoteBackend

    directory = open_library(None).resolve(name)
    if directory.path == expand_user(name):
        return None
    url, api_key = default_url(settings), os.environ.get("MLXCTL_API_KEY")
    try:
        served = {str(card["id"]) for card in list_models(url, api_key)}
    except MlxctlError:
        return None
    found = next((known for known in (name, directory.name) if known in served), None)
    return None if found is None else RemoteBackend(url, model=found, api_key=api_key)


def _local_model(name: str, *, is_quiet: bool) -> str:
    """Return the model's name or directory.

    A hub repository is downloaded first.
    """
    from mlxctl.cli.models import open_library
    from mlxctl.cli.models.pull import download, full_name
    from mlxctl.models.names import is_repository

    library = open_library(None)
    try:
        library.resolve(name)
    except ModelNotFoundOnDisk:
        repository = full_name(name)
        if "/" not in repository or not is_repository(repository):
            raise
        typer.echo(f"mlxctl: {repository} is not on this machine; downloading it", err=True)
        download(repository, library.hub_cache, is_quiet=is_quiet)
        return repository
    return name

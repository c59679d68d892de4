"""`mlxctl run`: one prompt, or a chat.

The model is downloaded if needed.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.options import ApiKey, MaxTokens, System, Temperature, TopP
from mlxctl.cli.parameters import Argument, Option
from mlxctl.cli.running_server import check_url, server_with
from mlxctl.cli.served_directories import name_to_load
from mlxctl.state.settings import resolve
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.chat.chat_backend import ChatBackend


@command(
    epilog="Examples: mlxctl run mlx-community/Qwen3-4B-4bit 'why is the sky blue?'    "
    "git diff | mlxctl run mlx-community/Qwen3-4B-4bit 'review this'"
)
def run(
    model: Annotated[
        str,
        Argument(
            help="Model of the library or a running server, alias, directory, `demo`, hub repository "
            "ORGANIZATION/NAME, or short name such as qwen3:4b.",
            metavar="MODEL",
            offers="models or short names",
        ),
    ],
    prompt: Annotated[
        str | None,
        Argument(help="Prompt to answer once. Piped text is added below it.", metavar="PROMPT"),
    ] = None,
    system: System = "",
    temperature: Temperature = None,
    top_p: TopP = None,
    max_tokens: MaxTokens = None,
    image: Annotated[
        list[Path] | None, Option(help="Attach an image, video or PDF; may be repeated.", metavar="FILE")
    ] = None,
    as_json: Annotated[
        bool, Option("--json", help="Print the answer, token counts and times as one JSON object.")
    ] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="No download progress and no statistics.")] = False,
    url: Annotated[
        str | None, Option(help="Use the server at this URL; MODEL is one of its models.", metavar="URL")
    ] = None,
    api_key: ApiKey = None,
    local: Annotated[
        bool, Option("--local", help="Load the model here, even if a running server has it.")
    ] = False,
) -> None:
    """Answer one prompt, or chat; downloads the model if needed.

    A server that runs on this machine and has the model is used, so that it is in memory once. The answer
    goes to standard output, progress and statistics to standard error.
    """
    with report_errors():
        from mlxctl.chat.conversation import ChatOptions
        from mlxctl.chat.launch import InitialConversation, run_chat

        options = ChatOptions(
            system_prompt=system, temperature=temperature, top_p=top_p, max_tokens=max_tokens
        )
        raise click.exceptions.Exit(
            run_chat(
                open_backend(url, model, api_key, is_local=local, is_quiet=quiet or as_json),
                options,
                InitialConversation(is_saved=prompt is None and sys.stdin.isatty()),
                prompt=prompt,
                images=image or (),
                is_plain=False,
                report="json" if as_json else None if quiet else "text",
            )
        )


def open_backend(
    url: str | None, model: str, api_key: str | None, *, is_local: bool, is_quiet: bool
) -> "ChatBackend":
    """Return a server that has the model, or a local engine.

    With `url` it is the server there. Raises SettingsError.
    """
    from mlxctl.chat.chat_backend import LocalBackend, RemoteBackend
    from mlxctl.cli.served_directories import open_library

    check_url(url, is_local=is_local)
    if url:
        return RemoteBackend(url, model=model, api_key=api_key)
    if not is_local:
        settings = resolve(environment=os.environ)
        server = server_with(model, settings, api_key=api_key, is_quiet=is_quiet)
        if server is not None:
            return server
    name = name_to_load(model, open_library(None), is_quiet=is_quiet)
    path = Path(local_model(name, is_quiet=is_quiet))
    return LocalBackend(resolve(environment=os.environ, flags={"model": {"path": path}}))


def local_model(name: str, *, is_quiet: bool) -> str:
    """Return the model's name or directory.

    A hub repository is downloaded first.
    """
    from mlxctl.cli.models.downloads import download, missing_repository
    from mlxctl.cli.served_directories import open_library

    library = open_library(None)
    repository = missing_repository(name, library)
    if repository is None:
        return name
    echo(f"mlxctl: {repository} is not on this machine; downloading it", err=True)
    download(repository, library.hub_cache, is_quiet=is_quiet)
    return repository

"""`mlxctl chat`.

Checks type and range of sampling values; the server or engine checks the rest.
"""

import os
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.options import ApiKey, MaxTokens, System, Temperature, TopP, print_json, setting
from mlxctl.cli.parameters import Argument, Option
from mlxctl.cli.running_server import any_server, check_url, server_with
from mlxctl.cli.served_directories import is_model_name, name_to_load, open_library
from mlxctl.ir.errors import UsageError
from mlxctl.state.settings import ModelSettings, resolve
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.chat.chat_backend import ChatBackend
    from mlxctl.chat.launch import InitialConversation


@command(
    epilog="Examples: mlxctl chat    mlxctl chat 'why is the sky blue?'    "
    "git diff | mlxctl chat 'review this'"
)
def chat(
    prompt: Annotated[
        str | None,
        Argument(
            help="Question to answer once, on standard output. Piped text is added below it.",
            metavar="PROMPT",
        ),
    ] = None,
    model: Annotated[str | None, setting(ModelSettings, "path", "--model", "-m", metavar="MODEL")] = None,
    url: Annotated[
        str | None, Option(help="Use the server at this URL; --model names one of its models.", metavar="URL")
    ] = None,
    api_key: ApiKey = None,
    system: System = "",
    temperature: Temperature = None,
    top_p: TopP = None,
    max_tokens: MaxTokens = None,
    tools: Annotated[
        bool,
        Option(
            "--tools",
            help="Offer built-in tools: a clock and a calculator; on a terminal also files and commands of "
            "the working directory, which ask before each call.",
        ),
    ] = False,
    ask_tools: Annotated[bool, Option("--ask-tools", help="As --tools, but ask before each call.")] = False,
    mcp_config: Annotated[
        Path | None,
        Option(
            "--mcp-config",
            help="Offer the tools of the MCP servers in this JSON file (`mcpServers`). Each call asks first.",
            metavar="FILE",
        ),
    ] = None,
    image: Annotated[
        list[Path] | None,
        Option(help="Attach an image, video or PDF to the first question; may be repeated.", metavar="FILE"),
    ] = None,
    last: Annotated[bool, Option("--continue", "-c", help="Continue the last chat.")] = False,
    session: Annotated[
        str | None,
        Option(help="Continue the chat whose id starts with ID; --list shows the ids.", metavar="ID"),
    ] = None,
    file: Annotated[
        Path | None, Option("--open", help="Continue a chat that was exported as .json.", metavar="FILE")
    ] = None,
    listing: Annotated[bool, Option("--list", help="List the saved chats and exit.")] = False,
    as_json: Annotated[bool, Option("--json", help="With --list: print JSON instead of text.")] = False,
    save: Annotated[
        bool, Option("--save/--no-save", help="Save the chat, to search and continue it later.")
    ] = True,
    local: Annotated[
        bool, Option("--local", help="Load the model here, even if a running server has it.")
    ] = False,
    plain: Annotated[bool, Option("--plain", help="Chat in lines of text, for screen readers.")] = False,
) -> None:
    """Chat with a model in the terminal.

    A server of yours that runs on this machine is used: with MODEL if it has it, else MODEL is loaded here;
    without --model with the model that it serves.
    """
    with report_errors():
        from mlxctl.chat.conversation import ChatOptions
        from mlxctl.chat.launch import InitialConversation, open_toolbox, run_chat

        if listing:
            _print_chats(as_json=as_json)
            raise click.exceptions.Exit
        if as_json:
            raise UsageError("--json needs --list; `mlxctl run --json` prints an answer as JSON")
        if prompt is not None and model is None and is_model_name(prompt):
            raise UsageError(
                f"{prompt!r} is a model, and `chat` takes a prompt: mlxctl chat --model {shlex.quote(prompt)}"
            )
        has_built_in = tools or ask_tools
        options = ChatOptions(
            system_prompt=system,
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            uses_tools=has_built_in or mcp_config is not None,
            asks_before_tools=ask_tools,
        )
        initial = InitialConversation(is_last=last, chat_id=session, file=file, is_saved=save)
        _check_initial(initial)
        raise click.exceptions.Exit(
            run_chat(
                _open_backend(url, model, api_key, is_local=local),
                options,
                initial,
                prompt=prompt,
                images=image or (),
                is_plain=plain,
                tools=open_toolbox(mcp_config, has_built_in=has_built_in) if mcp_config else None,
            )
        )


def _print_chats(*, as_json: bool) -> None:
    """Print the saved chats, newest first.

    In JSON, times are unix seconds. Raises StoreError.
    """
    from mlxctl.chat.launch import saved_chats
    from mlxctl.chat.session_autosave import saved_line

    found = saved_chats()
    if as_json:
        print_json([asdict(summary) for summary in found])
        return
    if not found:
        echo("mlxctl: no saved chats", err=True)
    for summary in found:
        echo(saved_line(summary))


def _check_initial(initial: "InitialConversation") -> None:
    """Raise UsageError for options that exclude each other."""
    if sum((initial.is_last, initial.chat_id is not None, initial.file is not None)) > 1:
        raise UsageError(
            "--continue, --session and --open exclude each other: choose one conversation to continue"
        )
    if not initial.is_saved and (initial.is_last or initial.chat_id is not None):
        raise UsageError("--no-save cannot be combined with --continue or --session")


def _open_backend(
    url: str | None, model: str | None, api_key: str | None, *, is_local: bool
) -> "ChatBackend":
    """Return a server that has the model, or a local engine.

    With `url` it is the server there. Raises UsageError.
    """
    from mlxctl.chat.chat_backend import LocalBackend, RemoteBackend
    from mlxctl.cli.models.downloads import offer_downloads

    check_url(url, is_local=is_local)
    if url:
        return RemoteBackend(url, model=model, api_key=api_key)
    settings = resolve(environment=os.environ, flags={"model": {"path": model and Path(model)}})
    server = None
    if model is not None and not is_local:
        server = server_with(model, settings, api_key=api_key, is_quiet=False)
    elif not is_local:
        server = any_server(settings, api_key=api_key)
    if server is not None:
        return server
    if settings.model.path is not None:
        library = open_library(None)
        name = name_to_load(str(settings.model.path), library, is_quiet=False)
        offer_downloads([name], library)
        settings = replace(settings, model=replace(settings.model, path=Path(name)))
    return LocalBackend(settings)

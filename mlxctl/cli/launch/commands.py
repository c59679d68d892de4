"""`mlxctl launch`: a coding agent with a model of this machine."""

import os
import shlex
import shutil
from typing import TYPE_CHECKING, Annotated

from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.options import ApiKey
from mlxctl.cli.parameters import Argument, Option
from mlxctl.cli.served_directories import is_model_name
from mlxctl.ir.errors import ClientNotReady, UsageError
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.cli.launch import Client, FoundServer
    from mlxctl.cli.launch.clients import Endpoint
    from mlxctl.state.settings import Settings


@command(epilog="Examples: mlxctl launch claude    mlxctl launch codex --model NAME -- exec 'run the tests'")
def launch(
    client: Annotated[
        str,
        Argument(
            help="claude, codex, opencode, copilot or pi.",
            metavar="CLIENT",
            offers=("claude", "codex", "opencode", "copilot", "pi"),
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        Argument(help="Arguments of the client, after `--`.", metavar="[-- ARGUMENTS]"),
    ] = None,
    model: Annotated[
        str | None,
        Option(
            "--model",
            "-m",
            help="Model to use.  [default: the best that suffices]",
            metavar="NAME",
            offers="models",
        ),
    ] = None,
    url: Annotated[
        str | None,
        Option(
            help="Server to use.  [default: where `mlxctl serve` listens; started if needed]", metavar="URL"
        ),
    ] = None,
    api_key: ApiKey = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print the command and environment, and start nothing.")
    ] = False,
) -> None:
    """Start a coding agent with a model of this machine.

    Finds the running server, or starts one in the background, and picks a model whose context and tool calls
    suffice. Sets environment variables and arguments only; no file of yours is changed.
    """
    with report_errors():
        from mlxctl.cli.launch.clients import write_files
        from mlxctl.state import locations
        from mlxctl.state.settings import resolve

        agent = _find_client(client)
        if model is None and arguments and is_model_name(arguments[0]):
            raise UsageError(
                f"{arguments[0]!r} is a model: mlxctl launch {client} --model {shlex.quote(arguments[0])}"
            )
        executable = _find_program(agent, may_be_missing=dry_run)
        settings = resolve(environment=os.environ)
        endpoint, server = _find_endpoint(
            settings, agent, url=url, model=model, api_key=api_key, may_start=not dry_run
        )
        plan = agent.plan(endpoint)
        environment = write_files(plan, locations.runtime_directory() / f"launch-{agent.name}")
        command = [executable, *plan.arguments, *(arguments or ())]
        if dry_run:
            _print_plan(command, environment, secret=endpoint.api_key)
            return
        if server.pid is not None:
            echo(
                f"the server runs in the background (pid {server.pid}, log {server.log_file}); "
                "stop it with: mlxctl service stop",
                err=True,
            )
        echo(f"{agent.name} with {endpoint.model} at {endpoint.url}", err=True)
        os.execve(executable, command, {**os.environ, **environment})  # noqa: S606 -- what was asked for


def _find_endpoint(
    settings: "Settings",
    agent: "Client",
    *,
    url: str | None,
    model: str | None,
    api_key: str | None,
    may_start: bool,
) -> "tuple[Endpoint, FoundServer]":
    """Return a server with a model that suffices for the client.

    A server is started if none answers and `may_start`. Raises MlxctlError.
    """
    from mlxctl.cli.launch import choose_model, find_or_start, served_names
    from mlxctl.cli.launch.background_server import default_url
    from mlxctl.cli.launch.clients import Endpoint
    from mlxctl.ir.host_names import server_root

    root = server_root(url or default_url(settings))
    keys = settings.server.api_keys
    key = api_key or (keys[0] if keys and url is None else None)

    def serve_options() -> list[str]:
        if url is not None:
            raise ClientNotReady(f"no server answers at {root}; start one, or leave --url out")
        options = _serve_options(settings, agent, model, checks_model=may_start)
        if not may_start:
            raise ClientNotReady(
                f"no server answers at {root}, and a dry run starts none; start it with: "
                f"{shlex.join(['mlxctl', 'serve', *options])}"
            )
        return options

    server = find_or_start(
        root, api_key=key, arguments=serve_options, waiting=lambda text: echo(text, err=True)
    )
    # A server that was started for this model serves only this model, under its own name.
    try:
        wanted = model if server.pid is None else None
        other_names = served_names(settings, wanted) if wanted is not None else ()
        found = choose_model(server.models, agent, wanted=wanted, other_names=other_names)
    except ClientNotReady:
        server.stop()
        raise
    context_length = found.context_length or agent.min_context
    return Endpoint(url=root, model=found.name, context_length=context_length, api_key=key), server


def _serve_options(
    settings: "Settings", agent: "Client", model: str | None, *, checks_model: bool
) -> list[str]:
    """Return the options of `mlxctl serve` for a client.

    Raises ClientNotReady if no model suffices, with `checks_model` also if `model` does not.
    """
    from mlxctl.cli.launch import check_local_model, choose_model, library_candidates

    if model is not None:
        if checks_model:
            check_local_model(settings, agent, model)
        return [model]
    if settings.model.path or settings.pool.models:
        return []
    return [choose_model(library_candidates(settings, agent), agent, wanted=None).name]


def _find_client(name: str) -> "Client":
    """Return a client by name. Raises UsageError."""
    from mlxctl.cli.launch import CLIENTS

    client = CLIENTS.get(name)
    if client is None:
        raise UsageError(f"unknown client {name!r}; known are {', '.join(CLIENTS)}")
    return client


def _find_program(client: "Client", *, may_be_missing: bool) -> str:
    """Return the path of a client's program. Raises ClientNotReady."""
    found = shutil.which(client.executable)
    if found is None and not may_be_missing:
        raise ClientNotReady(f"{client.executable} is not installed; install it: {client.install}")
    return found or client.executable


def _print_plan(command: list[str], environment: dict[str, str], *, secret: str | None) -> None:
    for name, value in environment.items():
        shown = value.replace(secret, "...") if secret else value
        echo(f"export {name}={shlex.quote(shown)}")
    echo(shlex.join(command))

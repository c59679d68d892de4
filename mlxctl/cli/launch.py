"""`mlxctl launch`: a coding agent with a model of this machine."""

import os
import shlex
import shutil
from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.models import is_model_name
from mlxctl.errors import ClientNotReady

if TYPE_CHECKING:
    from mlxctl.launch import Client

app = create_app()
Option = typer.Option


@app.command(
    epilog="Examples: mlxctl launch claude    mlxctl launch codex --model NAME -- exec 'run the tests'"
)
def launch(
    client: Annotated[str, typer.Argument(help="claude, codex, opencode or pi.", metavar="CLIENT")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="Arguments of the client, after `--`.", metavar="[-- ARGUMENTS]"),
    ] = None,
    model: Annotated[
        str | None,
        Option("--model", "-m", help="Model to use.  [default: the best that suffices]", metavar="NAME"),
    ] = None,
    url: Annotated[
        str | None,
        Option(
            help="Server to use.  [default: where `mlxctl serve` listens; started if needed]", metavar="URL"
        ),
    ] = None,
    api_key: Annotated[
        str | None, Option(help="Key for that server.", envvar="MLXCTL_API_KEY", metavar="KEY")
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print the command and environment, and start nothing.")
    ] = False,
) -> None:
    """Start a coding agent with a model of this machine.

    Finds the running server, or starts one in the background, and picks a model whose context and tool calls
    suffice. Sets environment variables and arguments only; no file of yours is changed.
    """
    with report_errors():
        from mlxctl import locations
        from mlxctl.launch import (
            AvailableModel,
            check_local_model,
            choose_model,
            find_or_start,
            library_candidates,
            served_names,
        )
        from mlxctl.launch.background_server import default_url
        from mlxctl.launch.clients import Endpoint, write_files
        from mlxctl.settings import resolve

        chosen = _find_client(client)
        if model is None and arguments and is_model_name(arguments[0]):
            raise ClientNotReady(
                f"{arguments[0]!r} is a model: mlxctl launch {client} --model {shlex.quote(arguments[0])}"
            )
        executable = _find_program(chosen, may_be_missing=dry_run)
        settings = resolve(environment=os.environ)
        root = (url or default_url(settings)).rstrip("/").removesuffix("/v1")
        keys = settings.server.api_keys
        key = api_key or (keys[0] if keys and url is None else None)

        def serve_options() -> list[str]:
            if url is not None:
                raise ClientNotReady(f"no server answers at {root}; start one, or leave --url out")
            if model is not None:
                options = [model]
                if not dry_run:
                    check_local_model(settings, chosen, model)
            elif settings.model.path or settings.pool.models:
                options = []
            else:
                best = choose_model(library_candidates(settings, chosen), chosen, wanted=None)
                options = [best.name]
            if dry_run:
                raise ClientNotReady(
                    f"no server answers at {root}, and a dry run starts none; start it with: "
                    f"{shlex.join(['mlxctl', 'serve', *options])}"
                )
            return options

        server = find_or_start(
            root, api_key=key, arguments=serve_options, waiting=lambda text: typer.echo(text, err=True)
        )
        models = [AvailableModel.of_card(card) for card in server.cards]
        # A server that was started for this model serves only this model, under its own name.
        try:
            wanted = model if server.pid is None else None
            other_names = served_names(settings, wanted) if wanted is not None else ()
            found = choose_model(models, chosen, wanted=wanted, other_names=other_names)
        except ClientNotReady:
            server.stop()
            raise
        endpoint = Endpoint(
            url=root, model=found.name, context_length=found.context_length or chosen.min_context, api_key=key
        )
        plan = chosen.plan(endpoint)
        environment = write_files(plan, locations.runtime_directory() / f"launch-{chosen.name}")
        command = [executable, *plan.arguments, *(arguments or ())]
        if dry_run:
            _print_plan(command, environment, secret=key)
            return
        if server.pid is not None:
            typer.echo(
                f"the server runs in the background (pid {server.pid}, log {server.log_file}); "
                f"stop it with: kill {server.pid}",
                err=True,
            )
        typer.echo(f"{chosen.name} with {found.name} at {root}", err=True)
        os.execve(executable, command, {**os.environ, **environment})  # noqa: S606 -- what was asked for


def _find_client(name: str) -> "Client":
    """Return a client by name. Raises ClientNotReady."""
    from mlxctl.launch import CLIENTS

    client = CLIENTS.get(name)
    if client is None:
        raise ClientNotReady(f"unknown client {name!r}; known are {', '.join(CLIENTS)}")
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
        typer.echo(f"export {name}={shlex.quote(shown)}")
    typer.echo(shlex.join(command))

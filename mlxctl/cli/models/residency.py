"""The commands `mlxctl models load`, `unload`, `pin` and `unpin`.

One change of a model.
"""

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.models import COMMANDS
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json, server_url
from mlxctl.terminal_text import echo, escape_line

if TYPE_CHECKING:
    from mlxctl.cli.inspector.served_models import ModelServer, ModelStatus


def change_command(action: str) -> typer.Typer:
    """Return the app of the command that makes this change."""
    app = create_app()

    @app.command(help=COMMANDS[action].summary, epilog=f"Example: mlxctl models {action} NAME")
    def change(
        name: Annotated[str, typer.Argument(metavar="NAME", help="Model, as `mlxctl models ps` lists it.")],
        as_json: AsJson = False,
        url: ServerUrl = None,
        api_key: ApiKey = None,
    ) -> None:
        with report_errors():
            from mlxctl.cli.inspector.served_models import ModelServer

            with ModelServer(server_url(url), api_key=api_key) as server:
                is_shown = action == "load" and not as_json
                found = _load(server, name) if is_shown else server.change(action, name)  # type: ignore[arg-type]
        if as_json:
            print_json(to_builtins(found))
        else:
            pinned = ", pinned" if found.pinned else ""
            echo(escape_line(f"{found.model}: {found.state.replace('_', ' ')}{pinned}"))

    return app


def _load(server: "ModelServer", name: str) -> "ModelStatus":
    """Load a model; on a terminal, standard error shows a progress bar."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from mlxctl.cli.console import console

    screen = console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        console=screen,
        disable=not screen.is_terminal,
        transient=True,
    ) as progress:
        task = progress.add_task(f"loading {name}", total=None)
        return server.load(
            name, on_progress=lambda done, total: progress.update(task, completed=done, total=total)
        )

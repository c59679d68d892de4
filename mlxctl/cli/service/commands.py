"""`mlxctl service`: the server in the background, started at login."""

import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from mlxctl.cli.commands import command, group
from mlxctl.cli.error_reports import INTERRUPTED, report_errors
from mlxctl.cli.followed_log import FollowedLog
from mlxctl.cli.parameters import Argument, Option
from mlxctl.cli.served_directories import open_library
from mlxctl.ir.errors import ServiceFailed, UsageError
from mlxctl.state.locations import older_log_file
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.cli.service import ServiceStatus

app = group("service", example="mlxctl service install mlx-community/Qwen3-8B-4bit")

# Variables that decide where files lie and how the network is reached; keys are never copied into the file.
_KEPT_VARIABLES = (
    "HF_ENDPOINT",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HTTPS_PROXY",
    "MLXCTL_CONFIG",
    "NO_PROXY",
    "PATH",
    "SSL_CERT_FILE",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
)
_FOLLOW_SECONDS = 0.25
_MAX_LINES = 100_000


@app.command(
    epilog="Example: mlxctl service install mlx-community/Qwen3-8B-4bit --port 8080",
    # `serve` checks them.
    context_settings={"ignore_unknown_options": True},
)
def install(
    arguments: Annotated[
        list[str] | None,
        Argument(help="Models and options of `mlxctl serve`.", metavar="SERVE ARGUMENTS"),
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace a service that is installed.")] = False,
) -> None:
    """Install and start the service: launchd, or systemd on Linux."""
    with report_errors():
        from mlxctl.cli.service import ServiceDefinition, system_manager

        options = tuple(arguments or ())
        manager = system_manager()
        address = _check_options(options, has_port=not manager.status().is_running)
        definition = ServiceDefinition(
            command=(sys.executable, "-m", "mlxctl", "serve", *options),
            directory=Path.cwd(),
            log_file=manager.log_file,
            environment={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
        )
        manager.install(definition, force=force)
        echo(f"installed and started: {address}")
        echo(f"definition: {manager.definition_file}")
        echo("state: mlxctl service status    log: mlxctl service logs --follow")
        if hint := manager.logout_hint():
            echo(hint)


@app.command()
def uninstall() -> None:
    """Stop the service and remove it. Models, cache and log stay."""
    with report_errors():
        from mlxctl.cli.service import system_manager

        manager = system_manager()
        manager.uninstall()
        echo(f"removed: {manager.definition_file}")


@app.command()
def start() -> None:
    """Start the installed service."""
    with report_errors():
        from mlxctl.cli.service import system_manager

        manager = system_manager()
        if (pid := manager.status().pid) is not None:
            echo(f"already running, pid {pid}; a new start: mlxctl service restart")
            return
        manager.start()
        echo("started")


@app.command()
def restart() -> None:
    """Stop the installed service and start it again, with changed settings."""
    with report_errors():
        from mlxctl.cli.service import system_manager

        system_manager().restart()
        echo("restarted")


@app.command()
def stop() -> None:
    """Stop the service until the next login, or until `start`.

    Also stops a server that `mlxctl launch` started.
    """
    with report_errors():
        from mlxctl.cli.launch.launched_server import find_launched_server, stop_launched_server
        from mlxctl.cli.service import system_manager

        manager = system_manager()
        if (pid := find_launched_server()) is not None:
            stop_launched_server(pid)
            echo(f"stopped the server that `mlxctl launch` started, pid {pid}")
            if not manager.status().is_installed:
                return
        manager.stop()
        echo("stopped")


@app.command()
def status(
    as_json: Annotated[bool, Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Show whether the service is installed and runs.

    Exit code 1 when it does not run. Names a server that `mlxctl launch` started, too.
    """
    with report_errors():
        from mlxctl.cli.launch.launched_server import find_launched_server
        from mlxctl.cli.service import system_manager

        found, launched_pid = system_manager().status(), find_launched_server()
    if launched_pid is not None and not as_json:
        echo(f"`mlxctl launch` started a server, pid {launched_pid}; stop it: mlxctl service stop")
    if as_json:
        _print_json(found, launched_pid)
    elif not found.is_installed:
        echo("not installed; install it with: mlxctl service install")
    else:
        echo(_state(found))
        echo(f"definition {found.definition_file}")
        echo(f"log        {found.log_file}")
    raise click.exceptions.Exit(0 if found.is_running else 1)


def _logs(
    lines: Annotated[int, Option("--lines", "-n", min=0, max=_MAX_LINES, help="Number of lines.")] = 100,
    follow: Annotated[bool, Option("--follow", "-f", help="Print new lines as they come.")] = False,
) -> None:
    """Print the end of the log of the server in the background.

    Prints that of the service, or of a server that `mlxctl launch` started later.
    """
    with report_errors():
        path = _newest_log()
        try:
            _print_log(path, lines, follow=follow)
        except FileNotFoundError:
            raise ServiceFailed(
                f"there is no log yet: {path}; `mlxctl service install` starts the server that writes it"
            ) from None
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None


logs = app.command("logs", epilog="Example: mlxctl service logs --follow")(_logs)
# The root's table has its help text.
root_logs = command("logs", help="", epilog="Example: mlxctl logs --follow")(_logs)


def _state(found: "ServiceStatus") -> str:
    if found.is_running:
        return f"running, pid {found.pid}"
    if found.failure is not None:
        return f"not running, will be started again; the server ended: {found.failure}"
    return "installed, not running"


def _check_options(options: tuple[str, ...], *, has_port: bool) -> str:
    """Return the URL of a server with these options.

    Raise an error for options that `mlxctl serve` refuses: started anyway, it would end and be started again
    and again. Keys are an error too: the service's file would show them. With `has_port` the port must be
    free. Raises ServiceFailed, UsageError and ModelNotFoundOnDisk.
    """
    if any(option.split("=")[0] in ("--api-key", "--admin-key", "--cache-group") for option in options):
        raise UsageError(
            "keys do not belong in the service's definition, which other programs can read: "
            "set server.api_keys in the settings file"
        )
    from mlxctl.cli.launch.background_server import default_url
    from mlxctl.cli.serve import resolve_options, serve
    from mlxctl.server.http.address import claim_address

    try:
        context = serve.make_context("mlxctl serve", list(options))
    except click.UsageError as error:
        raise UsageError(f"mlxctl serve would refuse these options: {error.format_message()}") from None
    flags = dict(context.params)
    models = [*(flags.pop("models") or ()), *(flags.pop("more_models") or ())]
    config = flags.pop("config")
    settings = resolve_options(models, config, flags)
    if models:
        library = open_library(config)
        for name in models:
            library.resolve(name)
    if has_port:
        claim_address(settings.server.host, settings.server.port)
    return default_url(settings)


def _newest_log() -> Path:
    """Return the log that was written last.

    The service's when there is none.
    """
    from mlxctl.state import locations

    service, launched = locations.service_log_file(), locations.launched_log_file()
    written = {file: file.stat().st_mtime for file in (service, launched) if file.is_file()}
    return max(written, key=written.__getitem__, default=service)


def _print_log(path: Path, lines: int, *, follow: bool) -> None:
    with FollowedLog(path) as log:
        text = log.new_text().splitlines(keepends=True)
        last = text[-lines:] if lines else []
        found = (*_last_older_lines(path, lines - len(last)), *last)
        if lines and not found:
            echo(f"mlxctl: the log is empty: {path}", err=True)
        for line in found:
            echo(line, end="")
        while follow:
            time.sleep(_FOLLOW_SECONDS)
            echo(log.new_text(), end="")


def _last_older_lines(path: Path, lines: int) -> deque[str]:
    """Return the last lines of the older log file."""
    older = older_log_file(path)
    if not lines or not older.is_file():
        return deque()
    with older.open(encoding="utf-8", errors="replace") as file:
        return deque(file, maxlen=lines)


def _print_json(found: "ServiceStatus", launched_pid: int | None) -> None:
    import json

    echo(
        json.dumps(
            {
                "is_installed": found.is_installed,
                "is_running": found.is_running,
                "pid": found.pid,
                "failure": found.failure,
                "launched_pid": launched_pid,
                "definition_file": str(found.definition_file),
                "log_file": str(found.log_file),
            },
            indent=2,
        )
    )

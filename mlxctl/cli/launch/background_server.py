"""A server that answers already, or a new one in the background."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import httpx

from mlxctl.cli.launch.launched_server import new_pid_file
from mlxctl.cli.server_client import ServerClient
from mlxctl.inference.remote import RemoteModel
from mlxctl.inference.remote.address import ServerAddress
from mlxctl.ir.errors import (
    AuthenticationFailed,
    ClientNotReady,
    MlxctlError,
    ServerUnreachable,
    SettingsError,
)
from mlxctl.state import locations
from mlxctl.state.log_format import find_reason
from mlxctl.state.settings import Settings

_READ_SECONDS = 30.0
_START_SECONDS = 900.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """A server that lists models.

    `pid` is set for one that was started here.
    """

    url: str
    models: tuple[RemoteModel, ...]
    pid: int | None = None
    log_file: Path | None = None

    def stop(self) -> None:
        """Stop the server if it was started here."""
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)


def find_or_start(
    url: str,
    *,
    api_key: str | None,
    arguments: Callable[[], list[str]],
    waiting: Callable[[str], None],
) -> FoundServer:
    """Return the server at `url`, starting one if none answers.

    It is started with `arguments` of `mlxctl serve`. `arguments` is called only then. Raises
    AuthenticationFailed, and ClientNotReady with the server's own reason when it ends before it is ready.
    """
    try:
        return FoundServer(url=url, models=list_models(url, api_key))
    except ServerUnreachable:
        pass
    options = arguments()
    log_file = locations.launched_log_file()
    waiting(f"starting mlxctl serve {' '.join(options)}")
    with _new_log(log_file) as log, new_pid_file() as pid_file:
        process = subprocess.Popen(  # noqa: S603 -- our own command
            [sys.executable, "-m", "mlxctl", "serve", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(pid_file.descriptor,),
            # The server outlives the client, and Ctrl-C in the client does not stop it.
            start_new_session=True,
        )
        pid_file.write(process.pid)
    try:
        _wait_until_ready(url, process, log_file)
        return FoundServer(url=url, models=list_models(url, api_key), pid=process.pid, log_file=log_file)
    except BaseException:
        process.terminate()
        raise


def _new_log(path: Path) -> BinaryIO:
    """Return an empty log file for its owner only. Raises ClientNotReady."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Several processes write to it, so each line is appended.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "wb")
    except OSError as error:
        raise ClientNotReady(f"the server's log {str(path)!r} cannot be written: {error.strerror}") from None


def list_models(
    url: str, api_key: str | None, *, read_seconds: float = _READ_SECONDS
) -> tuple[RemoteModel, ...]:
    """Return the models of a server.

    Raises ServerUnreachable, AuthenticationFailed, and ClientNotReady where something else answers.
    """
    try:
        with ServerClient(url, api_key=api_key, read_seconds=read_seconds) as server:
            return server.models()
    except (AuthenticationFailed, SettingsError):
        raise
    except MlxctlError as error:
        if isinstance(error, ServerUnreachable) and not error.is_other:
            raise
        raise ClientNotReady(
            f"what answers at {url} lists no models; stop it, or set MLXCTL_SERVER_PORT to another port, "
            "or name a server with --url"
        ) from None


def default_url(settings: Settings) -> str:
    """Return where `mlxctl serve` listens by the settings."""
    host = settings.server.host
    if host in ("0.0.0.0", "::"):  # noqa: S104 -- compared, not bound
        host = "127.0.0.1"
    scheme = "https" if settings.server.tls_cert else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.server.port or 8080}"


def _wait_until_ready(url: str, process: "subprocess.Popen[bytes]", log_file: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    with ServerAddress.of(url).client(seconds=_READ_SECONDS) as client:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                log = log_file.read_text(encoding="utf-8", errors="replace")
                reason = find_reason(log) or f"see {log_file}"
                raise ClientNotReady(f"the server ended at its start: {reason}")
            try:
                if client.get(f"{url}/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(_POLL_SECONDS)
    raise ClientNotReady(f"the server was not ready within {_START_SECONDS:.0f} s; see {log_file}")

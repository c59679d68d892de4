"""The server as a part of another ASGI application."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from mlxctl.ir.errors import MlxctlError
from mlxctl.server.hosted_application import HostedApplication
from mlxctl.server.http.disconnect import Receive, Scope, Send
from mlxctl.state.settings import Settings, resolve


class EmbeddedServer:
    """ASGI application that serves all routes below any path.

    Use it as an async context manager in the lifespan of the outer application, which then mounts it; as the
    outermost application it handles the lifespan events itself. Nothing starts before. It installs no signal
    handlers and no logging, and binds no port.
    """

    def __init__(self, settings: Settings, *, in_process: bool = False) -> None:
        self.settings = settings
        self._in_process = in_process
        self._hosted: HostedApplication | None = None

    async def open(self) -> None:
        """Start the engine and wait until the first model is loaded.

        Raises SettingsError, ModelError, and RuntimeError if it is open.
        """
        if self._hosted is not None:
            raise RuntimeError("the embedded mlxctl server is already open")
        self._hosted = HostedApplication.create(self.settings, owner="embedded", in_process=self._in_process)
        try:
            await self._hosted.open()
            await self._hosted.services.inference.wait_ready()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End open requests and the engine. Idempotent."""
        hosted, self._hosted = self._hosted, None
        if hosted is not None:
            await hosted.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI connection."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._hosted is not None:
            await self._hosted.application(scope, receive, send)
        else:
            raise RuntimeError(
                "the embedded mlxctl server is not open: use `async with server:` in the lifespan of the "
                "outer application"
            )

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.open()
        except MlxctlError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})


def embed(
    *models: str | Path,
    settings: Mapping[str, object] | None = None,
    config: Path | None = None,
    in_process: bool = False,
) -> EmbeddedServer:
    """Return the server as an ASGI application for mounting in another one.

    `models` are names or directories, as for `mlxctl serve`. `settings` are tables as in the settings file
    (`config`), and precede it and the environment. The engine is a supervised child process; with
    `in_process` it is a thread, which takes the outer process down if it crashes. Raises SettingsError.
    """
    # As `mlxctl serve` passes its arguments.
    named: dict[str, dict[str, object]] = {}
    if models:
        named = {"model": {"path": models[0]}, "pool": {"models": list(models[1:])}}
    resolved = resolve(config_file=config, environment=os.environ, overrides=settings, flags=named)
    return EmbeddedServer(resolved, in_process=in_process)

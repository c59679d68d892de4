"""`mlxctl serve` in a thread of the tests.

Listener, application, services and engine are those of the command; only the preparation of requests has
processes, which are forks of one.
"""

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from mlxctl.cli.serve import serve
from mlxctl.server.hosted_application import HostedApplication
from mlxctl.server.http.address import claim_address
from mlxctl.server.http.listener import Listener
from mlxctl.state.settings import Settings

from .shared_fork_server import SharedForkServer

_END_SECONDS = 60.0


class HostedServer:
    """One running server; `url` is where it answers."""

    def __init__(self, settings: Settings) -> None:
        self.url = ""
        # Nothing is drained when a test is over.
        self._settings = replace(settings, server=replace(settings.server, drain_seconds=0.0))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._has_begun = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="hosted-server")

    def start(self) -> None:
        """Return when requests are accepted; raises what the start raises."""
        self._thread.start()
        self._has_begun.wait()
        if self._error is not None:
            self.stop()
            raise self._error

    def health(self) -> dict[str, Any]:
        """Return the answer of /health."""
        facts: dict[str, Any] = httpx.get(f"{self.url}/health").json()
        return facts

    def stop(self) -> None:
        """End open requests and the engine."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_END_SECONDS)
        assert not self._thread.is_alive(), "the server did not end"

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._error = error
        finally:
            self._has_begun.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        address = claim_address("127.0.0.1", 0)
        hosted = HostedApplication.create(self._settings, in_process=True)
        listener = Listener(hosted.application, address, self._settings.server)
        await listener.start(on_end=self._stop.set)
        try:
            await hosted.open()
            await hosted.services.inference.wait_ready()
            self.url = address.url
            self._has_begun.set()
            await self._stop.wait()
        finally:
            await hosted.close(listener.stop)


@contextmanager
def hosting(model: Path | None, *arguments: str, **environment: str) -> Iterator[HostedServer]:
    """Yield a ready server for `model` (None: the demo model).

    Takes what `process.serving` takes. Until it ends, the other variables of `environment` than settings hold
    for the whole process.
    """
    named = ["--model", str(model), "--name", "tiny"] if model else []
    settings = {name: value for name, value in environment.items() if name.startswith("MLXCTL_")}
    with tempfile.TemporaryDirectory() as state, pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlxctl.inference.preparation.model_workers.ForkServer", SharedForkServer)
        for name, value in {"XDG_STATE_HOME": state, "XDG_CACHE_HOME": state, **environment}.items():
            if name not in settings:
                patch.setenv(name, value)
        server = HostedServer(settings_of(*named, *arguments, **settings))
        server.start()
        try:
            yield server
        finally:
            server.stop()


def settings_of(*arguments: str, **environment: str) -> Settings:
    """Return the settings of `mlxctl serve` with these arguments and variables."""
    read: list[Settings] = []
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr("mlxctl.server.run", lambda settings, _: read.append(settings) or 0)
        serve.main(list(arguments), standalone_mode=False)
    (settings,) = read
    return settings

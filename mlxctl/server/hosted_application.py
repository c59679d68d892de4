"""The ASGI application with the services behind it. Event-loop thread only."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Self

from mlxctl.ir.errors import SettingsError
from mlxctl.server.app import create_app
from mlxctl.server.http.disconnect import Application
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.http.route import ServerOwner
from mlxctl.server.observe.tracing import RequestTracing
from mlxctl.server.policy.access import check_keys
from mlxctl.server.wiring import Services, build_services
from mlxctl.state import locations
from mlxctl.state.settings import Settings

# Time for the last responses to leave after the engine has ended.
_LAST_RESPONSES_SECONDS = 1.0


class HostedApplication:
    """An application whose engine is started by `open` and ended by `close`."""

    def __init__(self, settings: Settings, services: Services, owner: ServerOwner) -> None:
        self.services = services
        self._drain_seconds = settings.server.drain_seconds
        self._open_requests = OpenHttpRequests()
        self._tracing = RequestTracing(settings.telemetry) if settings.telemetry.otlp_endpoint else None
        self.application: Application = create_app(
            services, settings.server, self._open_requests, tracing=self._tracing, owner=owner
        )
        self._watch: asyncio.Task[None] | None = None

    @classmethod
    def create(cls, settings: Settings, *, owner: ServerOwner = "serve", in_process: bool = False) -> Self:
        """Create the services and the application. Needs a running event loop.

        The disk cache is enabled. With `in_process`, the engine is a thread. Raises SettingsError and
        ModelError.
        """
        # Other users of the engine must set a directory. Several ranks have no disk cache.
        if not settings.engine.is_group:
            directory = settings.engine.cache_dir or locations.cache_directory()
            settings = replace(settings, engine=replace(settings.engine, cache_dir=directory))
        services = build_services(
            settings,
            probes_unknown=settings.model.probe_unknown,
            in_process=in_process,
        )
        try:
            check_keys(settings.server, services.policy)
        except SettingsError:
            services.close()
            raise
        return cls(settings, services, owner)

    async def open(self) -> None:
        """Start the engine; it is ready later."""
        await self.services.inference.open()
        await self.services.router.open()
        self._watch = asyncio.create_task(self.services.policy.watch(), name="watch-policy")

    async def close(self, stop_listening: Callable[[], Awaitable[None]] | None = None) -> None:
        """Let requests end for `drain_seconds`, and end the engine."""
        if self._watch is not None:
            self._watch.cancel()
        await self.services.policy.close()
        self.services.catalog.downloads.close()
        router = self.services.router
        router.stop()
        await self.services.inference.close(drain_seconds=self._drain_seconds)
        seconds = self._drain_seconds if router.num_open else 0.0
        await self._open_requests.close(seconds=max(seconds, _LAST_RESPONSES_SECONDS))
        await router.close()
        if stop_listening is not None:
            await stop_listening()
        if self._tracing is not None:
            await self._tracing.close()
        self.services.close()

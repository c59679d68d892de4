"""The life of a serving process: claim the address, listen, load, answer, drain, end.

Returns what the shell should see.
"""

import asyncio
import gc
import logging
import os
import signal
import time
from dataclasses import replace
from typing import Protocol

from mlxctl import locations
from mlxctl.bootstrap import build_services
from mlxctl.inference import InferenceService, ServedModel
from mlxctl.server.address import Address, claim_address
from mlxctl.server.app import create_app
from mlxctl.server.listener import Listener
from mlxctl.server.open_requests import OpenRequests
from mlxctl.settings import ServerSettings, Settings

# After the engine has ended, answers that say so need a moment to leave.
_LAST_RESPONSES_SECONDS = 1.0
_COLLECTION_THRESHOLDS = (700, 10, 10)


class Announcer(Protocol):
    """Tells the operator how far the server is."""

    def listening(self, address: Address, settings: Settings) -> None:
        """HTTP is answered; the model is being loaded."""

    def ready(
        self, address: Address, settings: Settings, models: tuple[ServedModel, ...], *, seconds: float
    ) -> None:
        """Requests are answered, `seconds` after the start of the server."""


def run(settings: Settings, announcer: Announcer) -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP and return the exit code.

    Raises SettingsError and ModelError for what the operator can mend.
    """
    return asyncio.run(_serve(settings, announcer))


async def _serve(settings: Settings, announcer: Announcer) -> int:
    started = time.monotonic()
    stop = _stop_signals()
    address = claim_address(settings.server.host, settings.server.port)
    services = build_services(_with_cache_directory(settings))
    open_requests = OpenRequests()
    listener = Listener(create_app(services, settings.server, open_requests), address, settings.server)
    _configure_logging(settings.server)
    await listener.start(on_end=stop.set)
    _tune_garbage_collection()
    announcer.listening(address, settings)
    await services.inference.open()
    try:
        if await _becomes_ready_before(stop, services.inference):
            announcer.ready(
                address, settings, services.inference.models(), seconds=time.monotonic() - started
            )
            await stop.wait()
        exit_code = int(listener.has_ended)
    finally:
        services.catalog.downloads.close()
        await _end(services.inference, open_requests, listener, settings.server)
        services.close()
    return exit_code


async def _becomes_ready_before(stop: asyncio.Event, inference: InferenceService) -> bool:
    """Wait for the model or for the signal to stop, whichever comes first; raises the model's ModelError."""
    ready, stopped = asyncio.ensure_future(inference.wait_ready()), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({ready, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            ready.result()
        return ready.done()
    finally:
        ready.cancel()
        stopped.cancel()


async def _end(
    inference: InferenceService, open_requests: OpenRequests, listener: Listener, settings: ServerSettings
) -> None:
    await inference.close(drain_seconds=settings.drain_seconds)
    await open_requests.wait_done(seconds=_LAST_RESPONSES_SECONDS)
    await listener.stop()


def _with_cache_directory(settings: Settings) -> Settings:
    """Let the engine of a server use the disk; others that start one, for a chat or a test, must name a
    directory themselves.
    """
    directory = settings.engine.cache_dir or locations.cache_directory()
    return replace(settings, engine=replace(settings.engine, cache_dir=directory))


def _tune_garbage_collection() -> None:
    """End the thrift of the start, and never look for garbage in what is loaded by now: that would hold every
    stream at once.
    """
    gc.freeze()
    gc.set_threshold(*_COLLECTION_THRESHOLDS)


def _stop_signals() -> asyncio.Event:
    """Return the event that the first SIGINT, SIGTERM or SIGHUP sets.

    A further SIGINT or SIGTERM ends the process at once (the engine follows). A further SIGHUP does not: a
    terminal that closes may send several. Where SIGHUP is ignored from the start (nohup), it stays so.
    """
    stop = asyncio.Event()

    def on_signal(number: int) -> None:
        if stop.is_set() and number != signal.SIGHUP:
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, on_signal, number)
    return stop


def _configure_logging(settings: ServerSettings) -> None:
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
        force=True,
    )

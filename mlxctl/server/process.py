"""Life cycle of the server process: bind, listen, load, serve, drain, exit."""

import asyncio
import ctypes
import gc
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from mlxctl.inference import InferenceService, ServedModel
from mlxctl.ir.allowed_models import EVERY_MODEL
from mlxctl.ir.errors import UsageError, describe_bytes
from mlxctl.library import Fit
from mlxctl.library.catalog import Catalog
from mlxctl.server.hosted_application import HostedApplication
from mlxctl.server.http.address import Address, claim_address
from mlxctl.server.http.listener import Listener
from mlxctl.server.http.tls_key import tls_key_password, unencrypted_key
from mlxctl.server.observe.log_output import logging_to_standard_error
from mlxctl.server.published_card import PublishedCard
from mlxctl.state.certificates import check_server_files
from mlxctl.state.settings import EngineSettings, Settings

_COLLECTION_THRESHOLDS = (700, 10, 10)
# glibc's <malloc.h>.
_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK_BYTES = 1 << 20


class Announcer(Protocol):
    """Receives the milestones of the start."""

    def listening(self, address: Address, settings: Settings, *, requires_keys: bool) -> None:
        """The server listens; the model is still loading."""

    def ready(
        self,
        address: Address,
        models: tuple[ServedModel, ...],
        fits: Mapping[str, Fit],
        *,
        seconds: float,
    ) -> None:
        """The server accepts requests; `fits` are those of loaded models."""


def run(settings: Settings, announcer: Announcer) -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP and return the exit code.

    Raises SettingsError and ModelError.
    """
    with logging_to_standard_error(settings.server):
        return asyncio.run(_serve(settings, announcer))


async def _serve(settings: Settings, announcer: Announcer) -> int:
    started = time.monotonic()
    stop = _stop_signals()
    server = settings.server
    _check_memory_limit(settings.engine)
    key_password = tls_key_password(server)
    check_server_files(server.tls_cert, server.tls_key, server.tls_client_ca, password=key_password)
    address = claim_address(server.host, server.port)
    if server.tls_cert:
        address = replace(address, scheme="https")
    hosted = HostedApplication.create(settings)
    with unencrypted_key(server.tls_key, key_password) as key:
        listener = Listener(hosted.application, address, replace(server, tls_key=key))
        await listener.start(on_end=stop.set)
    _tune_garbage_collection()
    _return_large_blocks()
    services = hosted.services
    announcer.listening(address, settings, requires_keys=services.policy.requires_keys)
    card = PublishedCard(address, services.inference.models)
    services.inference.models.on_update = card.update
    await card.update()
    await hosted.open()
    updating: asyncio.Task[None] | None = None
    try:
        if await _becomes_ready_before(stop, services.inference):
            seconds, models = time.monotonic() - started, services.inference.models.served(EVERY_MODEL)
            announcer.ready(
                address, models, await asyncio.to_thread(_fits, services.catalog, models), seconds=seconds
            )
            # The library and the fingerprints of large models take a while.
            updating = asyncio.create_task(services.inference.models.update(), name="update-models")
            await stop.wait()
        exit_code = int(listener.has_ended)
    finally:
        if updating is not None:
            updating.cancel()
        card.close()
        await hosted.close(listener.stop)
    return exit_code


def _check_memory_limit(engine: EngineSettings) -> None:
    """Raise UsageError for a limit that the machine cannot give."""
    machine, limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), engine.memory_limit_bytes
    if limit is not None and limit > machine:
        raise UsageError(
            f"--memory-limit: expected at most {describe_bytes(machine)}, the memory of this machine, "
            f"got {describe_bytes(limit)}"
        )


def _fits(catalog: Catalog, models: Sequence[ServedModel]) -> dict[str, Fit]:
    """Return how the loaded models fit, at their longest context in memory."""
    fits = {}
    for model in models:
        if model.memory is not None and model.memory.max_safe_context:
            described = catalog.described(model.name, model.facts.path)
            fit = catalog.fit(described, context_tokens=model.memory.max_safe_context)
            if fit is not None:
                fits[model.name] = fit
    return fits


async def _becomes_ready_before(stop: asyncio.Event, inference: InferenceService) -> bool:
    """Wait for readiness or `stop`. Raises the model's ModelError."""
    ready, stopped = asyncio.ensure_future(inference.wait_ready()), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({ready, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            ready.result()
        return ready.done()
    finally:
        ready.cancel()
        stopped.cancel()


def _tune_garbage_collection() -> None:
    """Exclude loaded objects from garbage collection.

    Its full passes would pause all streams.
    """
    gc.freeze()
    gc.set_threshold(*_COLLECTION_THRESHOLDS)


def _return_large_blocks() -> None:
    """Make the allocator return freed memory of large bodies.

    glibc keeps blocks of a size that was freed before: 33 MB after one body of 30 MB, else 1 MB.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)


def _stop_signals() -> asyncio.Event:
    """Return the event that the first SIGINT, SIGTERM or SIGHUP sets.

    A second SIGINT or SIGTERM ends the process at once, and the engine with it. A second SIGHUP does not,
    since a closing terminal may send several. If SIGHUP is ignored at the start (nohup), it stays ignored.
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

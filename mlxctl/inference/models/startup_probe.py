"""Probes of named models before the engine loads them. Event-loop thread only."""

import asyncio
import logging
import time

from mlxctl.inference.models.configured_models import ModelReader
from mlxctl.inference.models.registry import ModelRegistry
from mlxctl.library.probe_process import ProbeProcess

_log = logging.getLogger(__name__)


class StartupProbe:
    """Probes listed models that were never probed completely.

    The server listens meanwhile, and its engine holds no weights yet. A model that cannot be probed is served
    nevertheless.
    """

    def __init__(self, reader: ModelReader, registry: ModelRegistry, process: ProbeProcess) -> None:
        self._reader = reader
        self._registry = registry
        self._process = process
        self.is_running = False
        self.model_name: str | None = None
        """The model that is probed now."""

    async def run(self) -> None:
        """Probe one model after another, then read them again.

        A cancellation ends the probe's process.
        """
        models = [self._registry.model(name) for name in self._registry.at_start]
        unknown = [model for model in models if not (model.is_probed or model.is_demo)]
        if not unknown:
            return
        self.is_running = True
        try:
            for number, model in enumerate(unknown, 1):
                place = f" ({number} of {len(unknown)})" if len(unknown) > 1 else ""
                _log.info("model %r was never probed: probing it before its first use%s", model.name, place)
                self.model_name = model.name
                started = time.monotonic()
                problem = await asyncio.to_thread(
                    self._process.run, model.facts.path, trust_remote_code=model.trust_remote_code
                )
                if problem is None:
                    _log.info("model %r: probed in %.0f s", model.name, time.monotonic() - started)
                else:
                    _log.warning("model %r was not probed: %s", model.name, problem)
            self._registry.update(await asyncio.to_thread(self._reader.listed_models))
        finally:
            self.is_running, self.model_name = False, None
            self._process.close()

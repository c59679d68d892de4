"""Keeps registered models in step with the disk. Event-loop thread only."""

import asyncio
import math
import time
from collections.abc import Container
from dataclasses import replace

from mlxctl.inference.models.configured_models import ModelReader
from mlxctl.inference.models.registry import ModelRegistry
from mlxctl.inference.models.served_model import ServedModel

_LIBRARY_SECONDS = 30.0


class ModelRefresh:
    """Reads new probe results, and with `offers_library` the models of the library.

    The library is read at most once in 30 seconds.
    """

    def __init__(self, reader: ModelReader, registry: ModelRegistry, *, offers_library: bool) -> None:
        self._reader = reader
        self._registry = registry
        self._offers_library = offers_library
        self._lock = asyncio.Lock()
        self._library_at = -math.inf
        self._results = reader.results_version()

    async def run(self, *, loaded: Container[str]) -> list[str]:
        """Return the own names of models of which probing found something else.

        A model that is `loaded` stays registered though its files were deleted.
        """
        async with self._lock:
            if self._offers_library and time.monotonic() - self._library_at > _LIBRARY_SECONDS:
                await self._read_library(loaded)
                self._library_at = time.monotonic()
            return await self._read_results()

    async def _read_library(self, loaded: Container[str]) -> None:
        before = {model.facts.path.resolve(): model for model in self._registry.models}
        found = await asyncio.to_thread(self._reader.library_models, before)
        removed = [
            model.name
            for path, model in before.items()
            if model.from_library and model.name not in loaded and not (path / "config.json").exists()
        ]
        self._registry.set_library(found, removed=removed)

    async def _read_results(self) -> list[str]:
        version = await asyncio.to_thread(self._reader.results_version)
        # None: no model was probed, or the store cannot be read now.
        if version is None or version == self._results:
            return []
        self._results = version
        found = await asyncio.to_thread(lambda: list(map(self._reader.probed_again, self._registry.models)))
        changed = [model for model in found if not _is_known(self._registry.model(model.name), model)]
        # They are to be found again, by the parsers that probing chose.
        unread = [
            replace(model, supports_tools=None, supports_thinking=None, adapter_verdict=None)
            for model in changed
        ]
        self._registry.update(unread)
        return [model.name for model in changed]


def _is_known(before: ServedModel, now: ServedModel) -> bool:
    return (before.verdicts, before.probed_capabilities, before.facts.context_length) == (
        now.verdicts,
        now.probed_capabilities,
        now.facts.context_length,
    )

"""Descriptions, fits and downloads of models, for a running server.

Any thread; methods read files and are not for the event loop, except `describe`.
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mlxctl.ir.allowed_models import EVERY_MODEL
from mlxctl.ir.errors import BrokenModel, ModelNotFoundOnDisk
from mlxctl.library.capability_lookup import CapabilityLookup
from mlxctl.library.description import ModelDescription, describe_model
from mlxctl.library.downloads import Downloads
from mlxctl.library.fit import Fit, fit_model, fit_on_macs
from mlxctl.library.library import Library
from mlxctl.library.machine import Machine, this_machine
from mlxctl.library.measured_speeds import MeasuredSpeeds
from mlxctl.library.probe_process import ProbeProcess
from mlxctl.library.text_options import text_options
from mlxctl.library.views import Assessment, ModelView
from mlxctl.state.settings import Settings

_LIBRARY_SECONDS = 30.0

IsAllowed = Callable[[str, Path], bool]
"""Whether a caller may use the model of this name in this directory."""


class Catalog:
    """Library, machine and downloads of one server.

    Names come from requests: they are looked up and never used as paths. Models that a caller may not use are
    unknown to it.
    """

    def __init__(self, settings: Settings, knowledge: CapabilityLookup) -> None:
        directories = (*settings.library.models_dirs, *settings.pool.dirs)
        self.library = Library(replace(settings.library, models_dirs=directories))
        self.downloads = Downloads(
            self.library.hub_cache,
            probe=ProbeProcess(memory_limit_bytes=settings.engine.memory_limit_bytes),
        )
        self.allows_downloads = settings.library.allow_downloads
        self.engine_settings = settings.engine
        self._settings = settings
        self._knowledge = knowledge
        self._lock = threading.Lock()
        self._machine: Machine | None = None
        self._described: dict[tuple[str, Path], ModelDescription] = {}
        self._speeds = MeasuredSpeeds()
        self._listed: list[tuple[Path, ModelView, Assessment | None]] = []
        self._listed_at = -math.inf

    def close(self) -> None:
        """Close the store of measured speeds. Idempotent."""
        self._speeds.close()

    @property
    def machine(self) -> Machine:
        """This machine, within the engine's memory limit."""
        with self._lock:
            if self._machine is None:
                self._machine = this_machine(memory_limit_bytes=self._settings.engine.memory_limit_bytes)
            return self._machine

    def listed(
        self, is_allowed: IsAllowed, *, needs_refresh: bool
    ) -> list[tuple[Path, ModelView, Assessment | None]]:
        """Describe the models of the library.

        The disk is read at most once in 30 seconds, unless it `needs_refresh`. One call at a time.
        """
        if needs_refresh or self._is_outdated():
            self._listed_at = time.time()
            self._listed = self._read()
        return [each for each in self._listed if is_allowed(each[1].name, each[0])]

    def _is_outdated(self) -> bool:
        age = time.time() - self._listed_at
        ends = (download.ended_at or 0.0 for download in self.downloads.all(EVERY_MODEL))
        return not 0 <= age < _LIBRARY_SECONDS or max(ends, default=0.0) >= self._listed_at

    def _read(self) -> list[tuple[Path, ModelView, Assessment | None]]:
        found = []
        for model in map(self.library.describe, self.library.entries()):
            fit = None if model.problem else self.fit(model, context_tokens=None)
            view = ModelView.of(model, probed=self._is_probed(model))
            found.append((model.path, view, Assessment.of(fit) if fit else None))
        return found

    def _is_probed(self, model: ModelDescription) -> bool:
        """Whether the store has probe results for the model."""
        return (
            model.problem is None
            and self._knowledge.of(model.name, model.path, self.library).record is not None
        )

    def described(self, name: str, path: Path) -> ModelDescription:
        """Describe a served model in `path`.

        Cached, because its files do not change.
        """
        with self._lock:
            if (name, path) not in self._described:
                self._described[name, path] = describe_model(path, name=name)
            return self._described[name, path]

    async def describe(self, name: str, path: Path) -> ModelDescription:
        """As `described`, in a thread: the first call reads files."""
        return await asyncio.to_thread(self.described, name, path)

    def find(self, name: str, is_allowed: IsAllowed) -> ModelDescription:
        """Describe a model of the library by name or alias.

        Raises ModelNotFoundOnDisk.
        """
        found = self.library.find_named(name)
        if not is_allowed(name, found.path):
            raise ModelNotFoundOnDisk(name, f"there is no model {name!r} in the library")
        return describe_model(found.path, name=found.name)

    def fit(self, model: ModelDescription, *, context_tokens: int | None) -> Fit | None:
        """Estimate how a model fits this machine, within the engine's memory limit.

        Uses the KV cache format of the settings.
        """
        chunk_tokens = self._settings.engine.prefill_pass_max_tokens
        fit = fit_model(
            self._as_served(model), self.machine, context_tokens=context_tokens, chunk_tokens=chunk_tokens
        )
        return None if fit is None else replace(fit, measured=self._speeds.of(model.path, self.machine))

    def fit_on_macs(self, model: ModelDescription, *, context_tokens: int) -> list[Fit]:
        """Estimate how a model fits each Apple chip and memory size."""
        return fit_on_macs(self._as_served(model), context_tokens=context_tokens)

    def _as_served(self, model: ModelDescription) -> ModelDescription:
        try:
            return model.served_with(text_options(self._settings, model.name, model.path))
        except BrokenModel as error:
            return replace(model, problem=str(error))

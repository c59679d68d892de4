"""What a running server knows of the models on its machine.

Any thread; every answer may read files: not for the event loop.
"""

import threading
from dataclasses import replace
from pathlib import Path

from mlxctl.models.description import ModelDescription, describe_model
from mlxctl.models.downloads import Downloads
from mlxctl.models.fit import Fit, fit_model
from mlxctl.models.knowledge import Knowledge
from mlxctl.models.kv_format import chosen_kv_format
from mlxctl.models.library import Library
from mlxctl.models.machine import Machine, this_machine
from mlxctl.settings import Settings


class Catalog:
    """Library, machine and downloads of one server.

    Names come from outside, so they are looked up and never taken for paths.
    """

    def __init__(self, settings: Settings, knowledge: Knowledge) -> None:
        places = (*settings.library.models_dirs, *settings.pool.dirs)
        self.library = Library(replace(settings.library, models_dirs=places))
        self.downloads = Downloads(self.library.hub_cache)
        self.allows_downloads = settings.library.allow_downloads
        self._settings = settings
        self._knowledge = knowledge
        self._lock = threading.Lock()
        self._machine: Machine | None = None
        self._described: dict[tuple[str, Path], ModelDescription] = {}

    def models(self) -> list[ModelDescription]:
        """Describe the whole library, afresh."""
        return [self.library.describe(entry) for entry in self.library.entries()]

    def is_probed(self, model: ModelDescription) -> bool:
        """Whether the model was ever asked what it can do."""
        return (
            model.problem is None
            and self._knowledge.of(model.name, model.path, self.library).record is not None
        )

    def described(self, name: str, path: Path) -> ModelDescription:
        """Describe a model that is served from `path`; once, because it is not expected to change while it is
        served.
        """
        with self._lock:
            if (name, path) not in self._described:
                self._described[name, path] = describe_model(path, name=name)
            return self._described[name, path]

    def find(self, name: str) -> ModelDescription:
        """Describe a model of the library by its name or alias; raises ModelNotFoundOnDisk."""
        found = self.library.find_named(name)
        return describe_model(found.path, name=found.name)

    def fit(self, model: ModelDescription, *, context_tokens: int | None) -> Fit | None:
        """Work out how a model fits this machine, under the engine's memory limit, with keys and values as
        the settings say.
        """
        with self._lock:
            if self._machine is None:
                self._machine = this_machine(memory_limit_bytes=self._settings.engine.memory_limit_bytes)
        chunk_tokens = self._settings.engine.prefill_chunk_max_tokens
        served = model.served_with(chosen_kv_format(self._settings, model.name))
        return fit_model(served, self._machine, context_tokens=context_tokens, chunk_tokens=chunk_tokens)

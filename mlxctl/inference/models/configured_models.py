"""Models that the settings name, read from their files without loading weights."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path

from msgspec import structs

from mlxctl.inference.models.drafters import DrafterReader
from mlxctl.inference.models.registry import ModelRegistry
from mlxctl.inference.models.served_model import ServedModel, UnusableModel
from mlxctl.inference.session import MIN_OUTPUT_TOKENS
from mlxctl.ir import ModelFacts
from mlxctl.ir.errors import BrokenModel, ModelError, ModelNotFoundOnDisk, SettingsError
from mlxctl.ir.model_spec import TextModelOptions
from mlxctl.ir.models import ContextLimit
from mlxctl.library import DEMO_MODEL, Library, LibraryEntry, NamedDirectory, read_model, this_machine
from mlxctl.library.capability_lookup import CapabilityLookup, ProbedModel
from mlxctl.library.kv_config import KV_CONFIG_FILE
from mlxctl.library.library import is_pattern
from mlxctl.library.text_options import kv_bits, text_options
from mlxctl.state.settings import Settings

_SET_BY_OPERATOR = ContextLimit(
    reason="this is max_tokens of the model in capabilities.toml", is_memory=False
)
_NO_MEMORY = ContextLimit(
    reason="this is the practical context: mlxctl probe measured the model's cache, and the memory limit "
    "leaves no room for more; shorten the prompt, start the server with a higher --memory-limit or with "
    "--kv-bits, or set max_tokens of the model in capabilities.toml",
    is_memory=True,
)

MAX_LIBRARY_MODELS = 1000
"""Most models of the library that a server offers."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ConfiguredModels:
    """`listed` are the models that the operator named, in order.

    `others` come from directories and aliases; `unusable` could not be read. `patterns` are the aliases that
    are globs, with their models.
    """

    listed: list[ServedModel] = field(default_factory=list)
    others: list[ServedModel] = field(default_factory=list)
    unusable: list[UnusableModel] = field(default_factory=list)
    patterns: dict[str, ServedModel] = field(default_factory=dict)

    @property
    def usable(self) -> list[ServedModel]:
        """Listed models, then the others."""
        return [*self.listed, *self.others]

    @property
    def names(self) -> list[str]:
        """Names of all models, unusable ones last."""
        return [*(model.name for model in self.usable), *(model.name for model in self.unusable)]


@dataclass(frozen=True, slots=True)
class _ModelEntry:
    """One model of the settings; `find` looks up its directory."""

    name: str
    find: Callable[[], NamedDirectory]
    is_listed: bool = False


class ModelReader:
    """Reads model directories and what probing found about them. Blocks; any thread."""

    def __init__(self, settings: Settings, library: Library, knowledge: CapabilityLookup) -> None:
        self._settings = settings
        self._library = library
        self._knowledge = knowledge
        self._drafters = DrafterReader(settings, library)

    def registry(self) -> ModelRegistry:
        """Read the configured models into a registry. Raises as `configured_models` does."""
        found = self.configured_models()
        find = self.library_model if self._settings.pool.allow_library else None
        return ModelRegistry(
            found.listed,
            found.others,
            unusable=found.unusable,
            find=find,
            patterns=found.patterns,
            any_name=self._settings.pool.any_model_name,
        )

    def configured_models(self) -> ConfiguredModels:
        """Read the models of the settings, by default the demo model.

        A model whose files cannot be used becomes `unusable`; a listed model that does not exist is an error.
        Raises SettingsError for two models of one name, a missing directory of models and a pin of an unknown
        model; ModelError for a listed model that does not exist, and when no model is usable.
        """
        found, failures = ConfiguredModels(), list[ModelError]()
        for entry in self._entries():
            try:
                model = self._read_entry(entry)
            except ModelError as error:
                if entry.is_listed and isinstance(error, ModelNotFoundOnDisk):
                    raise
                if entry.name not in found.names:
                    failures.append(error)
                    found.unusable.append(UnusableModel.because(entry.name, error))
                continue
            # A directory of models may contain a model that is also listed.
            if (entry.name, model.facts.path.resolve()) not in _identities(found):
                (found.listed if entry.is_listed else found.others).append(model)
        self._read_patterns(found, failures)
        self._check_usable(found, failures)
        self._check_names(found)
        directories = [model.facts.path.name for model in found.usable]
        self._knowledge.warn_of_unmatched([*found.names, *directories], self._library)
        return found

    def listed_models(self) -> list[ServedModel]:
        """Read the models again that the operator named.

        Models whose files became unusable are left out: the error is reported when they are loaded.
        """
        read = list[ServedModel]()
        for entry in self._entries():
            if entry.is_listed:
                with suppress(ModelError):
                    read.append(self._read_entry(entry))
        return read

    def library_model(self, name: str) -> ServedModel:
        """Read a library model by name or alias, never by path.

        Raises ModelNotFoundOnDisk, BrokenModel.
        """
        return self._library_model(self._library.find_named(name), served_as=name)

    def library_models(self, known: Container[Path]) -> list[ServedModel]:
        """Read the usable models of the library whose directories are not `known`."""
        entries = (entry for entry in self._library.entries() if entry.path.resolve() not in known)
        read = list[ServedModel]()
        for entry in islice(entries, MAX_LIBRARY_MODELS):
            with suppress(ModelError, SettingsError):
                read.append(self._library_model(_usable_directory(entry), served_as=entry.name))
        return read

    def probed_again(self, model: ServedModel) -> ServedModel:
        """Return a model with what is known of it from probing now."""
        try:
            found = self._read(
                NamedDirectory(name=model.name, path=model.facts.path),
                served_as=model.name,
                trust_remote_code=model.trust_remote_code,
            )
        except ModelError:
            return model
        # Other files are read with the next start of the server.
        facts = replace(
            model.facts,
            context_length=found.facts.context_length,
            context_limit=found.facts.context_limit,
        )
        return replace(
            model,
            facts=facts,
            probed_capabilities=found.probed_capabilities,
            verdicts=found.verdicts,
            is_probed=found.is_probed,
        )

    def results_version(self) -> object:
        """Return a value that changes with the stored results of probing."""
        return self._knowledge.version()

    def local_model(self, name: str) -> ServedModel:
        """Read a library model, or the demo model, by name.

        Raises ModelNotFoundOnDisk, BrokenModel.
        """
        return self._read(self._library.find_named(name), served_as=name, trust_remote_code=False)

    def _library_model(self, found: NamedDirectory, *, served_as: str) -> ServedModel:
        model = self._read(found, served_as=served_as, trust_remote_code=False)
        return replace(model, from_library=True, options=self._options(served_as, model))

    def _entries(self) -> Iterator[_ModelEntry]:
        pool, first = self._settings.pool, self._settings.model
        if first.path is not None:
            yield _ModelEntry(
                first.name or self._name(first.path), self._directory(first.path), is_listed=True
            )
        elif not (pool.models or pool.dirs):
            yield _ModelEntry(first.name or DEMO_MODEL.name, lambda: DEMO_MODEL, is_listed=True)
        for path in pool.models:
            yield _ModelEntry(self._name(path), self._directory(path), is_listed=True)
        taken = {DEMO_MODEL.name if path is None else self._name(path) for path in (first.path, *pool.models)}
        for found in self._entries_in(pool.dirs):
            yield _ModelEntry(found.name, partial(_usable_directory, found))
        for alias in self._library.aliases:
            if alias not in taken and not is_pattern(alias):
                yield _ModelEntry(alias, partial(self._library.find_named, alias))

    def _read_patterns(self, found: ConfiguredModels, failures: list[ModelError]) -> None:
        """Read the models of aliases that are globs, to serve them."""
        for glob in filter(is_pattern, self._library.aliases):
            try:
                name = self._library.find_named(glob).name
                model = self._read_entry(_ModelEntry(name, partial(self._library.find_named, glob)))
            except ModelError as error:
                failures.append(error)
                continue
            if model.facts.path.resolve() not in {each.facts.path.resolve() for each in found.usable}:
                found.others.append(model)
            found.patterns[glob] = model

    def _directory(self, path: Path) -> Callable[[], NamedDirectory]:
        return partial(self._library.resolve, str(path))

    def _name(self, path: Path) -> str:
        """Return the name for a model directory that may not exist."""
        try:
            return self._library.resolve(str(path)).name
        except ModelError:
            return path.name

    def _entries_in(self, directories: tuple[Path, ...]) -> list[LibraryEntry]:
        for directory in directories:
            _check_models_directory(directory)
        entries = self._library.entries() if directories else []
        return [
            entry
            for entry in entries
            if not entry.is_gguf and any(entry.folder.is_relative_to(directory) for directory in directories)
        ]

    def _read_entry(self, entry: _ModelEntry) -> ServedModel:
        model = self._read(
            entry.find(),
            served_as=entry.name,
            trust_remote_code=entry.is_listed and self._settings.model.trust_remote_code,
        )
        is_default = entry.is_listed and entry.name == self._default_name
        options = self._options(entry.name, model, must_fit=is_default)
        return replace(model, name=entry.name, options=options)

    def _options(self, name: str, model: ServedModel, *, must_fit: bool = False) -> TextModelOptions:
        options = text_options(self._settings, name, model.facts.path)
        self._check_kv_config(name, model, options, must_fit=must_fit)
        draft = self._drafters.draft_of(model, must_fit=must_fit)
        uses_own_head = not (draft and draft.is_mtp_head) and self._drafters.uses_own_mtp_head(
            model, must_fit=must_fit
        )
        return structs.replace(options, draft=draft, mtp_head=uses_own_head)

    @property
    def _default_name(self) -> str:
        first = self._settings.model
        return first.name or (DEMO_MODEL.name if first.path is None else self._name(first.path))

    def _check_kv_config(
        self, name: str, model: ServedModel, options: TextModelOptions, *, must_fit: bool
    ) -> None:
        """Warn of a text model without the formats that its settings name.

        Raises SettingsError where it must have some.
        """
        if kv_bits(self._settings, name) != "config" or model.facts.purpose != "text":
            return
        if options.kv_format is None:
            problem = f"model {name!r} has no {KV_CONFIG_FILE} with quantized layers"
            if must_fit:
                raise SettingsError(f"{problem}: set --kv-bits to full, 8 or 4")
            _log.warning("%s: its KV cache is not quantized", problem)

    def _read(self, found: NamedDirectory, *, served_as: str, trust_remote_code: bool) -> ServedModel:
        facts = read_model(found.path, trust_remote_code=trust_remote_code)
        known = self._knowledge.of(found.name, found.path, self._library, served_as=served_as)
        return ServedModel(
            name=found.name,
            facts=self._limited(facts, known, name=served_as),
            probed_capabilities=known.capabilities,
            verdicts=known.verdicts,
            is_probed=known.record is not None and known.record.is_complete,
            trust_remote_code=trust_remote_code,
            is_demo=found.path == DEMO_MODEL.path,
        )

    def _limited(self, facts: ModelFacts, known: ProbedModel, *, name: str) -> ModelFacts:
        """Return the facts with the context that the server allows.

        The operator's limit comes before that of memory. Only text models have such a limit.
        """
        if facts.purpose != "text":
            return facts
        tokens: int | None
        if known.max_tokens is not None:
            tokens, limit = known.max_tokens, _SET_BY_OPERATOR
        else:
            tokens, limit = self._practical_context(known, name), _NO_MEMORY
        if tokens is None or tokens >= facts.context_length:
            return facts
        _log.info("model %r: context limited to %d tokens; %s", name, tokens, limit.reason)
        return replace(facts, context_length=tokens, context_limit=limit)

    def _practical_context(self, known: ProbedModel, name: str) -> int | None:
        """Return the tokens for which this server has memory.

        None where probing did not measure the cache.
        """
        measured, limit_bytes = known.practical_context, self._settings.engine.memory_limit_bytes
        # Probing measures a cache that is not quantized.
        if measured is None or kv_bits(self._settings, name) != "full":
            return None
        if limit_bytes is None:
            # PERF: on a Mac, the default limit takes a process that imports MLX.
            if not measured.is_limited_by_memory:
                return None
            limit_bytes = self._default_memory_limit_bytes
        # The cache of a prompt has room for a short answer, so that any prompt within this limit is admitted.
        tokens = measured.tokens_within(limit_bytes) - MIN_OUTPUT_TOKENS
        # If there is no memory for any context, loading the model reports that.
        return tokens if tokens > 0 else None

    @cached_property
    def _default_memory_limit_bytes(self) -> int:
        return this_machine().usable_bytes

    def _check_usable(self, found: ConfiguredModels, failures: list[ModelError]) -> None:
        if found.usable:
            for failure in failures:
                _log.error("%s", failure)
        elif len(failures) == 1:
            raise failures[0]
        elif failures:
            raise BrokenModel(failures[0].path, "no model can be served: " + "; ".join(map(str, failures)))
        elif not self._settings.pool.allow_library:
            directories = ", ".join(map(str, self._settings.pool.dirs))
            raise SettingsError(f"there is no model in {directories}")

    def _check_names(self, found: ConfiguredModels) -> None:
        names = found.names
        twice = [name for name, num in Counter(names).items() if num > 1]
        if twice:
            raise SettingsError(
                f"two models are called {twice[0]!r}: give one an alias (mlxctl models alias) and name "
                "it by that"
            )
        for pin in self._settings.pool.pins:
            if pin not in names:
                raise SettingsError(f"there is no model {pin!r} to pin; there are: {', '.join(names)}")
        self._check_kv_bits_names(found)

    def _check_kv_bits_names(self, found: ConfiguredModels) -> None:
        bits_by_name = self._settings.pool.kv_bits_by_name
        own_names: dict[Path, str] = {}
        for model in found.usable:
            own_name = own_names.setdefault(model.facts.path.resolve(), model.name)
            if model.name != own_name and model.name in bits_by_name:
                raise SettingsError(
                    f"{model.name!r} is another name of {own_name!r}: use that one in pool.kv_bits_by_name"
                )
        for name in bits_by_name:
            if name not in found.names and not self._settings.pool.allow_library:
                raise SettingsError(
                    f"there is no model {name!r} for pool.kv_bits_by_name; there are: "
                    f"{', '.join(found.names)}"
                )


def _check_models_directory(directory: Path) -> None:
    """Raise SettingsError for a directory that cannot hold models."""
    if not directory.is_dir():
        raise SettingsError(f"there is no directory of models at {str(directory)!r}")
    if not os.access(directory, os.R_OK | os.X_OK):
        raise SettingsError(f"the directory of models {str(directory)!r} cannot be read: permission denied")
    if (directory / "config.json").is_file() and not any(directory.glob("*/config.json")):
        raise SettingsError(
            f"{str(directory)!r} is a model, not a directory of models: mlxctl serve {directory}"
        )


def _identities(found: ConfiguredModels) -> set[tuple[str, Path]]:
    return {(model.name, model.facts.path.resolve()) for model in found.usable}


def _usable_directory(entry: LibraryEntry) -> NamedDirectory:
    if entry.problem is not None:
        raise BrokenModel(entry.path, entry.problem)
    return NamedDirectory(name=entry.name, path=entry.path)

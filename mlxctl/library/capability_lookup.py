"""Probe results and overrides (capabilities.toml) of models on this machine."""

import difflib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct, ValidationError, convert

from mlxctl.formats.parsers import RESPONSE_TEMPLATE_ID, THINKING_PARSER_IDS, TOOL_PARSER_IDS
from mlxctl.ir import ModelCapabilities, ProbeVerdict
from mlxctl.ir.conversation_size import ConversationSize
from mlxctl.ir.errors import BrokenModel, SettingsError, StoreError
from mlxctl.ir.kv_cache_size import KVWindow
from mlxctl.library.fingerprint import fingerprint
from mlxctl.library.library import Library
from mlxctl.library.names import display_name
from mlxctl.state import locations
from mlxctl.state.stores import (
    CapabilityStore,
    Finding,
    Override,
    ProbeRecord,
    apply_overrides,
    read_overrides,
    to_capabilities,
)

_DELIVERIES = ("template", "injected")
_CHOICES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("tools", "parser"): (*TOOL_PARSER_IDS, RESPONSE_TEMPLATE_ID),
    ("tools", "delivery"): _DELIVERIES,
    ("thinking", "parser"): (*THINKING_PARSER_IDS, RESPONSE_TEMPLATE_ID),
}

_log = logging.getLogger(__name__)


class PracticalContext(Struct):
    """The longest context for which the probing process had memory.

    `tokens` is at most `context_length`, the model's own. The KV cache was not quantized.
    """

    tokens: int
    context_length: int
    weights_bytes: int
    kv_bytes_per_token: int
    kv_windows: list[KVWindow]
    work_bytes_per_token: int
    fixed_bytes: int

    @property
    def is_limited_by_memory(self) -> bool:
        """Whether the memory did not suffice for the model's own context length."""
        return self.tokens < self.context_length

    def tokens_within(self, memory_limit_bytes: int) -> int:
        """Return the length of a conversation that fits under another memory limit."""
        conversation = ConversationSize(
            bytes_per_token=self.kv_bytes_per_token,
            windows=self.kv_windows,
            work_bytes_per_token=self.work_bytes_per_token,
            fixed_bytes=self.fixed_bytes,
        )
        return conversation.tokens_within(memory_limit_bytes - self.weights_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedModel:
    """Findings about one model.

    `record` is None for a model that was never probed; `findings` include the overrides. `max_tokens` is an
    override of the context length, in tokens.
    """

    record: ProbeRecord | None = None
    findings: tuple[Finding, ...] = ()
    max_tokens: int | None = None

    @property
    def practical_context(self) -> "PracticalContext | None":
        """What probing measured for the longest context.

        None where it measured nothing, or an override replaces the finding.
        """
        finding = self.record.finding("practical_context") if self.record is not None else None
        if finding is None or finding not in self.findings or finding.verdict != "yes":
            return None
        try:
            return convert(finding.value, PracticalContext)
        except ValidationError:
            # A record of an older version.
            return None

    @property
    def capabilities(self) -> ModelCapabilities:
        """The findings as capabilities, for loading the model."""
        return to_capabilities(self.findings)

    @property
    def verdicts(self) -> Mapping[str, ProbeVerdict]:
        """The verdicts by question."""
        return {finding.question: finding.verdict for finding in self.findings}


class CapabilityLookup:
    """Looks findings up by a model's fingerprint, not by its name.

    Any thread; methods may read files, so never call them on the event loop. An unusable store is logged
    once; then no model counts as probed, and a server uses detection from files.
    """

    def __init__(self, store: CapabilityStore, overrides_file: Path) -> None:
        """Read the overrides. Raises SettingsError for invalid ones."""
        self._store = store
        self._overrides = read_overrides(overrides_file)
        self._matched: set[str] = set()
        self._is_store_lost = False
        for model, override in self._overrides.items():
            _check_choices(model, override)

    def of(
        self, name: str, path: Path, library: Library | None = None, *, served_as: str | None = None
    ) -> ProbedModel:
        """Return the findings about the model in `path`.

        Never raises for its files. A table of overrides may have any name of the model: `name`, `served_as`,
        a name or alias of the library, its directory's name, or its path.
        """
        return self.over(self._record(path), name, path, library, served_as=served_as)

    def over(
        self,
        record: ProbeRecord | None,
        name: str,
        path: Path,
        library: Library | None = None,
        *,
        served_as: str | None = None,
    ) -> ProbedModel:
        """Return the record's findings with the overrides of the model."""
        override = self._override(name, path, library, served_as) if self._overrides else None
        return ProbedModel(
            record=record,
            findings=apply_overrides(record.findings if record else (), override),
            max_tokens=override.max_tokens if override is not None else None,
        )

    def warn_of_unmatched(self, names: Iterable[str], library: Library) -> None:
        """Log each override table that matches no model.

        Models looked up before, those of the library and `names` count.
        """
        left = [table for table in self._overrides if table not in self._matched]
        if not left:
            return
        known = dict.fromkeys([*names, *library.aliases, *(entry.name for entry in library.entries())])
        for table in left:
            if (
                table in known
                or any(name.rpartition("/")[2] == table for name in known)
                or _is_model_path(table)
            ):
                continue
            close = difflib.get_close_matches(table, known, n=3, cutoff=0.5)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            _log.warning(
                "%s: no model is called %r, so this table has no effect%s",
                self._overrides[table].origin,
                table,
                hint,
            )

    def _override(
        self, name: str, path: Path, library: Library | None, served_as: str | None
    ) -> Override | None:
        resolved = path.resolve()
        names = [
            served_as,
            name,
            display_name(resolved),
            path.name,
            *(library.names_of(path) if library is not None else ()),
        ]
        tables = dict.fromkeys(each for each in names if each in self._overrides)
        tables |= dict.fromkeys(table for table in self._overrides if _leads_to(table, resolved))
        self._matched.update(each for each in tables if each is not None)
        first, *others = [each for each in tables if each is not None] or [None]
        if first is None:
            return None
        if others:
            _log.warning(
                "%s: %r and %r are one model; only %r counts",
                self._overrides[first].origin,
                first,
                others[0],
                first,
            )
        return self._overrides[first]

    def version(self) -> object:
        """Return a value that changes with the stored results.

        None without any, or where they cannot be read.
        """
        try:
            return self._store.version()
        except StoreError:
            return None

    def close(self) -> None:
        """Close the store. Idempotent."""
        self._store.close()

    def _record(self, path: Path) -> ProbeRecord | None:
        try:
            # Skip reading the headers of all weight files when there is no store.
            if self._is_store_lost or not self._store.has_records():
                return None
            return self._store.find(fingerprint(path))
        except BrokenModel:
            return None
        except StoreError as error:
            self._is_store_lost = True
            _log.warning("models count as never probed: %s", error)
            return None


def open_capability_lookup() -> CapabilityLookup:
    """Return the lookup of this machine's findings. Raises SettingsError."""
    return CapabilityLookup(open_store(), locations.capability_overrides_file())


def open_store() -> CapabilityStore:
    """Return the store of this machine.

    Its file is opened at the first use.
    """
    return CapabilityStore(locations.state_directory() / "capabilities.sqlite")


def _leads_to(table: str, resolved: Path) -> bool:
    """Whether a table is named by the path of a directory."""
    try:
        return "/" in table and locations.expand_user(table).resolve() == resolved
    except (OSError, RuntimeError, ValueError):
        return False


def _is_model_path(table: str) -> bool:
    try:
        return "/" in table and (locations.expand_user(table) / "config.json").is_file()
    except (OSError, ValueError):
        return False


def _check_choices(model: str, override: Override) -> None:
    for question, values in override.values.items():
        for name, value in values.items():
            known = _CHOICES.get((question, name))
            if known is not None and value not in known:
                where = f"{question} of {model!r} in {override.origin!r}"
                raise SettingsError(f"unknown {name} {value!r} for {where}; known: {', '.join(known)}")

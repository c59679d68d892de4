"""The policy backend of `policy.sqlite`, whose contents change while a server runs."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from mlxctl.ir.errors import MlxctlError, SettingsError, StoreUnavailable
from mlxctl.ir.policy import ApiKey, GuardrailRules, Limits
from mlxctl.server.policy.backend import Decision, RequestFacts, decide_locally
from mlxctl.server.policy.key_table import KeyTable
from mlxctl.server.policy.settings_backend import SettingsPolicy
from mlxctl.state.stores.policy import PolicyStore, Record

_CHECK_SECONDS = 0.5
_USES_SECONDS = 60.0

Value = TypeVar("Value")

_log = logging.getLogger(__name__)


class StoredPolicy:
    """Keys, limits and guardrails of a store; implements `PolicyBackend`.

    Values that the store does not have are those of `defaults`. Changes by other processes are noticed within
    half a second of use. While the file cannot be read, the values that were read last stay in force; the
    next change writes all of them to a new file where the old one is missing or damaged. `on_change` is
    called after each change. Raises SettingsError and StoreUnavailable if the file cannot be read at the
    start.
    """

    def __init__(
        self, store: PolicyStore, defaults: SettingsPolicy, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._store = store
        self._defaults = defaults
        self._clock = clock
        self._uses: dict[str, float] = {}
        self._uses_stored_at = self._checked_at = clock()
        self._is_failing = False
        self._version = store.version()
        self._read()

    @property
    def path(self) -> Path:
        """The file of the store."""
        return self._store.path

    @property
    def had_keys(self) -> bool:
        """Whether this store, or one that is lost, had keys."""
        return self._store.had_keys

    def find_key(self, sha256: str) -> ApiKey | None:
        """Return the key with this digest, and note its use."""
        self.refresh()
        key = self._table.find(sha256)
        if key is not None:
            self._uses[key.id] = time.time()
        return key

    def all_keys(self) -> Sequence[ApiKey]:
        """Return all keys, in order of creation."""
        return self._table.keys

    def last_used(self) -> dict[str, float]:
        """Return when keys were last used, in unix seconds.

        Reads the file; without a usable one, returns the uses since it was last written.
        """
        try:
            return self._store.last_uses() | self._uses
        except StoreUnavailable:
            return dict(self._uses)

    def put_key(self, key: ApiKey, /) -> None:
        """Add a key, or replace the one with its id."""
        self._put("key", key.id, key)

    def default_limits(self) -> Limits:
        """Return the default limits of the store, or else of the settings."""
        return self._limits or self._defaults.default_limits()

    def set_default_limits(self, limits: Limits, /) -> None:
        """Store the default limits."""
        self._put("limits", "default", limits)

    def guardrails(self) -> GuardrailRules:
        """Return the rules of the store, or else of the settings."""
        return self._guardrails or self._defaults.guardrails()

    def set_guardrails(self, rules: GuardrailRules, /) -> None:
        """Store the rules of the guardrails."""
        self._put("guardrails", "default", rules)

    async def decide(self, facts: RequestFacts) -> Decision:
        """Decide by scopes and models of the key."""
        return decide_locally(facts)

    def refresh(self) -> None:
        """Read the file if another process changed it."""
        now = self._clock()
        if now - self._checked_at < _CHECK_SECONDS:
            return
        self._checked_at = now
        try:
            if (version := self._store.version()) != self._version:
                if version is None:
                    raise StoreUnavailable("policy", f"{str(self._store.path)!r} is gone")
                self._read()
                self._version = version
                self.on_change()
            self._is_failing = False
        except MlxctlError as error:
            if not self._is_failing:
                _log.error("the policy store cannot be read, its last state stays in use: %s", error)
            self._is_failing = True

    async def store_uses(self) -> None:
        """Store when keys were used, at most once a minute."""
        now = self._clock()
        if not self._uses or now - self._uses_stored_at < _USES_SECONDS:
            return
        self._uses_stored_at = now
        uses, self._uses = self._uses, {}
        try:
            # Another process may hold the lock of the file for seconds.
            await asyncio.to_thread(self._store.record_uses, uses)
        except MlxctlError as error:
            _log.error("the last uses of API keys cannot be stored yet: %s", error)
            self._uses = uses | self._uses

    def _put(self, kind: str, name: str, value: object) -> None:
        record = Record(kind, name, msgspec.json.encode(value))
        if self._version is not None and self._store.is_lost():
            # The values that were read last are in force, so they are written to the new file.
            self._store.restore([*self._records, record])
        else:
            self._store.put(*record)
        self._version = self._store.version()
        self._read()
        self.on_change()

    def _read(self) -> None:
        records = self._store.read()
        self._records = records
        keys = [_decoded(record.value, ApiKey) for record in records if record.kind == "key"]
        one = {record.kind: record.value for record in records if record.kind != "key"}
        limits = _decoded(one["limits"], Limits) if "limits" in one else None
        guardrails = _decoded(one["guardrails"], GuardrailRules) if "guardrails" in one else None
        self._table = KeyTable(sorted(keys, key=lambda key: key.created))
        self._limits, self._guardrails = limits, guardrails


def _decoded(value: bytes, kind: type[Value]) -> Value:
    try:
        return msgspec.json.decode(value, type=kind)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"the policy store has an unreadable record: {error}") from None

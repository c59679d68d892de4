"""Management of API keys, limits and guardrails."""

import secrets
import time
from collections.abc import Sequence
from typing import Annotated, Literal, NoReturn

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.ir.errors import Conflict, UnknownResource
from mlxctl.ir.policy import (
    MAX_PATTERNS,
    USER_SCOPES,
    ApiKey,
    Glob,
    GuardrailRules,
    KeyLimits,
    Limits,
    Name,
    Scope,
)
from mlxctl.server.policy.guardrails import GuardrailTest, compile_rules, try_rules
from mlxctl.server.policy.key_table import secret_digest
from mlxctl.server.policy.settings_backend import SettingsPolicy
from mlxctl.server.policy.store_backend import StoredPolicy

_SECRET_BYTES = 32
_ID_BYTES = 8

Globs = Annotated[tuple[Glob, ...], Meta(max_length=MAX_PATTERNS)]
Scopes = Annotated[tuple[Scope, ...], Meta(min_length=1)]
Priority = Annotated[int, Meta(ge=-100, le=100)]
UnixTime = Annotated[float, Meta(ge=0)]


class NewKey(Struct, kw_only=True, forbid_unknown_fields=True):
    """An API key to create; `expires` is in unix seconds."""

    name: Name
    scopes: Scopes = USER_SCOPES
    models: Globs = ()
    priority: Priority | None = None
    cache_group: Name | None = None
    limits: KeyLimits = KeyLimits()
    expires: UnixTime | None = None


class KeyChange(Struct, kw_only=True, forbid_unknown_fields=True):
    """Changes of an API key; fields that are left out stay."""

    name: Name | UnsetType = UNSET
    scopes: Scopes | UnsetType = UNSET
    models: Globs | UnsetType = UNSET
    priority: Priority | UnsetType | None = UNSET
    cache_group: Name | UnsetType | None = UNSET
    expires: UnixTime | UnsetType | None = UNSET


class KeyView(Struct, kw_only=True):
    """An API key without its secret; times are unix seconds.

    `key` is the secret, only in the answer that creates it.
    """

    id: str
    name: str
    source: Literal["settings", "store"]
    scopes: tuple[Scope, ...]
    models: tuple[str, ...] = ()
    priority: int | None = None
    cache_group: str | None = None
    limits: KeyLimits = KeyLimits()
    created: float | None = None
    last_used: float | None = None
    expires: float | None = None
    revoked_at: float | None = None
    key: str | UnsetType = UNSET


class KeyList(Struct):
    """All API keys: those of the settings, then those of the store."""

    keys: list[KeyView]


class TestedText(Struct, kw_only=True, forbid_unknown_fields=True):
    """A text or a request to try the guardrails with.

    The request is not run. `protocol` is the wire format of the request.
    """

    text: str | UnsetType = UNSET
    request: msgspec.Raw | UnsetType = UNSET
    protocol: Literal["chat", "messages", "responses"] = "chat"


class PolicyAdmin:
    """Reads and changes the policy store.

    Keys of the settings are only listed.

    Methods raise UnknownResource for an unknown key, Conflict for one that cannot be changed,
    StoreUnavailable.
    """

    def __init__(self, settings: SettingsPolicy, store: StoredPolicy) -> None:
        self._settings = settings
        self._store = store

    def keys(self) -> KeyList:
        """Return all API keys without their secrets."""
        used = self._store.last_used()
        stored = [_view(key, used.get(key.id)) for key in self._store.all_keys()]
        return KeyList(keys=[*(_settings_view(key) for key in self._settings.all_keys()), *stored])

    def key(self, key_id: str) -> KeyView:
        """Return one API key without its secret."""
        return next((view for view in self.keys().keys if view.id == key_id), None) or _raise_unknown(key_id)

    def add(self, new: NewKey) -> KeyView:
        """Create a key and return it with its secret.

        Raises Conflict for a name in use.
        """
        self._check_name(new.name, self._store.all_keys())
        secret = _new_secret()
        key = ApiKey(
            id=f"key_{secrets.token_hex(_ID_BYTES)}",
            name=new.name,
            sha256=secret_digest(secret),
            scopes=new.scopes,
            models=new.models,
            priority=new.priority,
            cache_group=new.cache_group,
            limits=new.limits,
            created=time.time(),
            expires=new.expires,
        )
        self._store.put_key(key)
        return _view(key, None, secret)

    def change(self, key_id: str, change: KeyChange) -> KeyView:
        """Change a key, from its next request on."""
        key = self._usable(key_id)
        if change.name is not UNSET and change.name != key.name:
            self._check_name(change.name, self._store.all_keys())
        changes = {
            name: getattr(change, name)
            for name in change.__struct_fields__
            if getattr(change, name) is not UNSET
        }
        return self._put(msgspec.structs.replace(key, **changes))

    def rotate(self, key_id: str) -> KeyView:
        """Replace the secret of a key.

        Returns the new one; the old one is refused at once.
        """
        key, secret = self._usable(key_id), _new_secret()
        key = msgspec.structs.replace(key, sha256=secret_digest(secret))
        self._store.put_key(key)
        return _view(key, None, secret)

    def revoke(self, key_id: str) -> KeyView:
        """Refuse a key from now on; its open requests end. Idempotent."""
        key = self._stored(key_id)
        return self._put(
            key if key.revoked_at is not None else msgspec.structs.replace(key, revoked_at=time.time())
        )

    def limits(self) -> Limits:
        """Return the default limits of keys."""
        return self._store.default_limits()

    def set_limits(self, limits: Limits) -> Limits:
        """Replace the default limits of keys."""
        self._store.set_default_limits(limits)
        return limits

    def key_limits(self, key_id: str) -> KeyLimits:
        """Return a key's limits."""
        return self.key(key_id).limits

    def set_key_limits(self, key_id: str, limits: KeyLimits) -> KeyLimits:
        """Replace a key's limits."""
        return self._put(msgspec.structs.replace(self._usable(key_id), limits=limits)).limits

    def set_guardrails(self, rules: GuardrailRules) -> GuardrailRules:
        """Replace the guardrails. Raises InvalidRequest for a pattern that cannot be used."""
        compile_rules(rules)
        self._store.set_guardrails(rules)
        return rules

    def test_guardrails(self, text: str) -> GuardrailTest:
        """Return what the guardrails would do to a text."""
        return try_rules(self.guardrails(), text)

    def guardrails(self) -> GuardrailRules:
        """Return the rules of the guardrails."""
        return self._store.guardrails()

    def _put(self, key: ApiKey) -> KeyView:
        self._store.put_key(key)
        return self.key(key.id)

    def _stored(self, key_id: str) -> ApiKey:
        if any(key.id == key_id for key in self._settings.all_keys()):
            raise Conflict(f"key {key_id!r} is in the settings of the server; change it there")
        return next((key for key in self._store.all_keys() if key.id == key_id), None) or _raise_unknown(
            key_id
        )

    def _usable(self, key_id: str) -> ApiKey:
        key = self._stored(key_id)
        if key.revoked_at is not None:
            raise Conflict(f"key {key_id!r} is revoked; add a new one")
        return key

    def _check_name(self, name: str, keys: Sequence[ApiKey]) -> None:
        if any(key.name == name and key.revoked_at is None for key in keys):
            raise Conflict(f"there is already a key named {name!r}", param="name")


def _new_secret() -> str:
    return f"mlx-{secrets.token_urlsafe(_SECRET_BYTES)}"


def _view(key: ApiKey, last_used: float | None, secret: str | UnsetType = UNSET) -> KeyView:
    return KeyView(
        id=key.id,
        name=key.name,
        source="store",
        scopes=key.scopes,
        models=key.models,
        priority=key.priority,
        cache_group=key.cache_group,
        limits=key.limits,
        created=key.created,
        last_used=last_used,
        expires=key.expires,
        revoked_at=key.revoked_at,
        key=secret,
    )


def _settings_view(key: ApiKey) -> KeyView:
    return KeyView(
        id=key.id, name=key.name, source="settings", scopes=key.scopes, cache_group=key.cache_group
    )


def _raise_unknown(key_id: str) -> NoReturn:
    raise UnknownResource(f"there is no key {key_id[:128]!r}")

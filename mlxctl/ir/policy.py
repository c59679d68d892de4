"""Access rules as values: scopes, API keys, callers, rate limits and guardrails.

All but callers are stored as JSON.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from mlxctl.ir.allowed_models import AllowedModels

Scope = Literal[
    "generate",
    "embed",
    "audio",
    "models:read",
    "models:write",
    "adapters:write",
    "cache:read",
    "cache:write",
    "requests:read",
    "requests:cancel",
    "metrics:read",
    "audit:read",
    "admin",
]
"""What a key allows. `admin` includes all others."""

SCOPES: tuple[Scope, ...] = get_args(Scope)
USER_SCOPES: tuple[Scope, ...] = ("generate", "embed", "audio", "models:read")
"""Scopes of an API key of the settings where admin keys exist."""

MAX_NAME_CHARS = 128
MAX_PATTERNS = 256
MAX_PATTERN_CHARS = 1024
MAX_BLOCKED_WORDS = 4096

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
Glob = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
Pattern = Annotated[str, Meta(min_length=1, max_length=MAX_PATTERN_CHARS)]
Count = Annotated[int, Meta(ge=0, le=1 << 40)]


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Rate limits of a key.

    0 is no limit; null takes the server's default limit. `tokens_per_minute` counts computed prompt tokens
    and generated tokens. `burst` is the maximum number of requests in one second.
    """

    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    concurrent: Count | None = None
    burst: Count | None = None

    def over(self, default: "Limits") -> "Limits":
        """Return these limits, with those of `default` where they are null."""
        return Limits(
            requests_per_minute=_first(self.requests_per_minute, default.requests_per_minute),
            tokens_per_minute=_first(self.tokens_per_minute, default.tokens_per_minute),
            concurrent=_first(self.concurrent, default.concurrent),
            burst=_first(self.burst, default.burst),
        )

    @property
    def is_unlimited(self) -> bool:
        """Whether no limit is set."""
        return not (self.requests_per_minute or self.tokens_per_minute or self.concurrent or self.burst)


NO_LIMITS = Limits()


class KeyLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Limits of one key.

    For all models, and for models by glob, of which the first match applies.
    """

    all_models: Limits = NO_LIMITS
    models: Annotated[dict[Glob, Limits], Meta(max_length=MAX_PATTERNS)] = {}


class GuardrailRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Texts that prompts or answers must not have.

    `blocklist` are words or phrases, matched as whole words without regard to case; `regex` are regular
    expressions. `apply_to` says where they are searched. `models` are globs; empty means all models.
    """

    blocklist: Annotated[tuple[Pattern, ...], Meta(max_length=MAX_BLOCKED_WORDS)] = ()
    regex: Annotated[tuple[Pattern, ...], Meta(max_length=MAX_PATTERNS)] = ()
    apply_to: tuple[Literal["input", "output"], ...] = ("input", "output")
    action: Literal["refuse", "redact", "flag"] = "refuse"
    models: Annotated[tuple[Glob, ...], Meta(max_length=MAX_PATTERNS)] = ()


NO_GUARDRAILS = GuardrailRules()


class ApiKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An API key without its secret.

    `sha256` is the hex digest of the secret. `models` are globs of allowed models; empty allows all.
    `priority` is the most urgent priority of its requests; lower is served first. Keys of one `cache_group`
    share cached prefixes. Times are unix seconds.
    """

    id: str
    name: Name
    sha256: str
    scopes: tuple[Scope, ...]
    models: tuple[Glob, ...] = ()
    priority: int | None = None
    cache_group: Name | None = None
    limits: KeyLimits = KeyLimits()
    created: float = 0.0
    expires: float | None = None
    revoked_at: float | None = None

    def is_usable(self, now: float) -> bool:
        """Whether the key is neither revoked nor expired at `now`."""
        return self.revoked_at is None and (self.expires is None or now < self.expires)


_NO_KEY_LIMITS = KeyLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A caller with its key's permissions.

    `name` is the id of the key, empty without a key. `sees_others` says whether routes show data of other
    callers. `models` are those that it may use. `is_stored` keys may be revoked. `priority` is the most
    urgent (lowest) priority of its requests. Callers of the same `cache_scope` share prefix-cache entries;
    without a key it is empty.
    """

    name: str
    scopes: frozenset[Scope]
    models: AllowedModels
    sees_others: bool = False
    cache_scope: bytes = b""
    priority: int | None = None
    limits: KeyLimits = _NO_KEY_LIMITS
    is_stored: bool = False


def _first(value: int | None, default: int | None) -> int | None:
    return default if value is None else value


def is_model_allowed(globs: Sequence[str], model: str) -> bool:
    """Whether a model's own name matches one of the globs.

    Without globs every model does.
    """
    return not globs or any(fnmatchcase(model, glob) for glob in globs)

"""The policy backend of the settings file: read-only."""

from collections.abc import Mapping, Sequence

from mlxctl.ir.errors import Conflict, UsageError
from mlxctl.ir.policy import NO_GUARDRAILS, SCOPES, USER_SCOPES, ApiKey, GuardrailRules, Limits, Scope
from mlxctl.server.policy.backend import Decision, RequestFacts, decide_locally
from mlxctl.server.policy.key_table import KeyTable, secret_digest

_READ_ONLY = "keys and limits of the settings are read-only; change the settings file of the server"


class SettingsPolicy:
    """API keys, limits and guardrails of the settings; implements `PolicyBackend`.

    A key's id is the start of its digest. API keys have all scopes, or USER_SCOPES where admin keys exist;
    admin keys have all. Raises UsageError for a cache group with an unknown key, or a key of two groups.
    """

    def __init__(
        self,
        api_keys: Sequence[str] = (),
        admin_keys: Sequence[str] = (),
        cache_groups: Mapping[str, Sequence[str]] | None = None,
        *,
        limits: Limits | None = None,
        guardrails: GuardrailRules = NO_GUARDRAILS,
    ) -> None:
        groups = _group_names(cache_groups or {}, {*api_keys, *admin_keys})
        self.has_admin_keys = bool(admin_keys)
        self.requires_keys = bool(api_keys)
        self._limits = limits or Limits()
        self._guardrails = guardrails
        # A key in both lists is an admin key.
        secrets = dict.fromkeys((*admin_keys, *api_keys))
        self._table = KeyTable(
            _settings_key(
                secret,
                scopes=SCOPES if secret in admin_keys or not admin_keys else USER_SCOPES,
                cache_group=groups.get(secret),
            )
            for secret in secrets
        )

    def find_key(self, sha256: str) -> ApiKey | None:
        """Return the key with this digest."""
        return self._table.find(sha256)

    def all_keys(self) -> Sequence[ApiKey]:
        """Return the keys of the settings file."""
        return self._table.keys

    def put_key(self, _: ApiKey, /) -> None:
        """Raise Conflict, since the settings file holds the keys."""
        raise Conflict(_READ_ONLY)

    def default_limits(self) -> Limits:
        """Return the limits of section `limits`."""
        return self._limits

    def set_default_limits(self, _: Limits, /) -> None:
        """Raise Conflict, since the settings file holds the limits."""
        raise Conflict(_READ_ONLY)

    def guardrails(self) -> GuardrailRules:
        """Return the rules of section `guardrails`."""
        return self._guardrails

    def set_guardrails(self, _: GuardrailRules, /) -> None:
        """Raise Conflict, since the settings file holds the rules."""
        raise Conflict(_READ_ONLY)

    async def decide(self, facts: RequestFacts) -> Decision:
        """Decide by scopes and models of the key."""
        return decide_locally(facts)


def _settings_key(secret: str, *, scopes: tuple[Scope, ...], cache_group: str | None) -> ApiKey:
    digest = secret_digest(secret)
    return ApiKey(id=digest[:16], name=digest[:16], sha256=digest, scopes=scopes, cache_group=cache_group)


def _group_names(groups: Mapping[str, Sequence[str]], known: set[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for name, keys in groups.items():
        for key in keys:
            if key not in known:
                raise UsageError(
                    f"cache group {name!r} names a key that is neither in api_keys nor in admin_keys"
                )
            if names.setdefault(key, name) != name:
                raise UsageError(
                    f"cache group {name!r} names a key of another group; a key shares with one group only"
                )
    return names

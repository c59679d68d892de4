"""Authentication, limits and guardrails of a server. Event-loop thread only."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mlxctl.ir.allowed_models import EVERY_MODEL
from mlxctl.ir.policy import NO_GUARDRAILS, SCOPES, USER_SCOPES, ApiKey, Caller, Limits, is_model_allowed
from mlxctl.server.policy.admin import PolicyAdmin
from mlxctl.server.policy.authentication import caller_of, is_token, offered_secrets, rejection
from mlxctl.server.policy.key_table import secret_digest
from mlxctl.server.policy.rate_limits import BucketId, RateLimiter, Reservation
from mlxctl.server.policy.request_screen import RequestGuardrails
from mlxctl.server.policy.settings_backend import SettingsPolicy
from mlxctl.server.policy.store_backend import StoredPolicy

if TYPE_CHECKING:
    from mlxctl.server.policy.oidc import OidcTokens
    from mlxctl.server.policy.opa import OpaPolicy

_WATCH_SECONDS = 1.0


class PolicyService:
    """Keys of the settings and of a store, and their limits.

    Without any key every caller is accepted. With a `store`, its limits and guardrails take precedence over
    the settings once they are set there.
    """

    def __init__(
        self,
        settings: SettingsPolicy,
        store: StoredPolicy | None = None,
        *,
        opa: "OpaPolicy | None" = None,
        oidc: "OidcTokens | None" = None,
        limiter: RateLimiter | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.store = store
        self.opa = opa
        self.oidc = oidc
        self.limiter = limiter or RateLimiter()
        self._now = now
        self._guardrails = RequestGuardrails(NO_GUARDRAILS)
        self._open: dict[str, dict[int, Callable[[], None]]] = {}
        if store is not None:
            store.on_change = self.end_revoked

    @property
    def admin(self) -> PolicyAdmin:
        """Management of the store, which must exist."""
        assert self.store is not None, "a server has a store"
        return PolicyAdmin(self.settings, self.store)

    async def authenticate(self, *, authorization: str | None, x_api_key: str | None) -> Caller:
        """Return the caller of an API key or of a token.

        Raises AuthenticationFailed, and PolicyUnavailable while a token cannot be checked.
        """
        if self.oidc is not None:
            for secret in offered_secrets(authorization, x_api_key):
                if is_token(secret) and self._find(secret_digest(secret)) is None:
                    return await self.oidc.caller(secret)
        return self.identify(authorization=authorization, x_api_key=x_api_key)

    def identify(self, *, authorization: str | None, x_api_key: str | None) -> Caller:
        """Return the caller of a `Bearer KEY` header or a bare key.

        Raises AuthenticationFailed.

        Of two valid keys the one with more scopes counts.
        """
        offered = offered_secrets(authorization, x_api_key)
        found = [caller for caller in map(self._find, map(secret_digest, offered)) if caller is not None]
        if found:
            return max(found, key=lambda caller: len(caller.scopes))
        if self.requires_keys:
            raise rejection(offered)
        return self._anonymous()

    @property
    def requires_keys(self) -> bool:
        """Whether requests need a key or a token."""
        return self.settings.requires_keys or bool(self._stored_keys()) or self.oidc is not None

    def track(self, caller: Caller, end: Callable[[], None]) -> Callable[[], None]:
        """Call `end` once the caller's key is no longer valid.

        Returns a callback for the end of the request.
        """
        if self.store is None or not caller.is_stored:
            return lambda: None
        self._open.setdefault(caller.name, {})[id(end)] = end

        def untrack() -> None:
            # After the key's end, newer requests of the key are in another dict.
            requests = self._open.get(caller.name, {})
            requests.pop(id(end), None)
            if not requests:
                self._open.pop(caller.name, None)

        return untrack

    def end_revoked(self) -> None:
        """End the open requests of keys that were revoked or have expired."""
        now = self._now()
        usable = {key.id for key in self._stored_keys() if key.is_usable(now)}
        for name in [name for name in self._open if name not in usable]:
            for end in list(self._open.pop(name).values()):
                end()

    async def watch(self) -> None:
        """Follow changes of the store by other processes, and expiry, until cancelled."""
        while self.store is not None:
            await asyncio.sleep(_WATCH_SECONDS)
            self.store.refresh()
            await self.store.store_uses()
            if self._open:
                self.end_revoked()

    async def close(self) -> None:
        """Close the connections to other servers. Idempotent."""
        for server in (self.opa, self.oidc):
            if server is not None:
                await server.close()

    @property
    def guardrails(self) -> RequestGuardrails:
        """The guardrails in force."""
        rules = (self.store or self.settings).guardrails()
        if rules is not self._guardrails.rules:
            self._guardrails = RequestGuardrails(rules)
        return self._guardrails

    def admit(self, caller: Caller, name: str, model: str, *, max_tokens: int) -> Reservation | None:
        """Count a request of `name` for a model.

        Returns None without limits; raises RateLimited.
        """
        defaults = (self.store or self.settings).default_limits()
        buckets: dict[BucketId, Limits] = {}
        limits = caller.limits.all_models.over(defaults)
        if not limits.is_unlimited:
            buckets[name,] = limits
        for glob, own in caller.limits.models.items():
            if is_model_allowed((glob,), model):
                if not own.is_unlimited:
                    buckets[name, model] = own
                break
        return self.limiter.admit(buckets, max_tokens=max_tokens) if buckets else None

    def _stored_keys(self) -> Sequence[ApiKey]:
        return self.store.all_keys() if self.store is not None else ()

    def _find(self, sha256: str) -> Caller | None:
        if (key := self.settings.find_key(sha256)) is not None:
            is_only_key = len(self.settings.all_keys()) + len(self._stored_keys()) == 1
            sees_others = "admin" in key.scopes and (self.settings.has_admin_keys or is_only_key)
            return caller_of(key, sees_others=sees_others)
        stored = self.store.find_key(sha256) if self.store is not None else None
        if stored is None or not stored.is_usable(self._now()):
            return None
        # A stored key lists its scopes explicitly, so that these alone decide.
        return caller_of(stored, sees_others=True, is_stored=True)

    def _anonymous(self) -> Caller:
        has_admins = self.settings.has_admin_keys
        scopes = USER_SCOPES if has_admins else SCOPES
        return Caller(name="", scopes=frozenset(scopes), models=EVERY_MODEL, sees_others=not has_admins)

"""Authentication, scopes, limits and guardrails, from the settings."""

from typing import TYPE_CHECKING

import msgspec

from mlxctl.ir.errors import InvalidRequest, SettingsError, StoreUnavailable
from mlxctl.ir.host_names import is_http_url
from mlxctl.ir.policy import GuardrailRules, Limits, Scope
from mlxctl.server.policy import PolicyService, SettingsPolicy
from mlxctl.server.policy.guardrails import compile_rules
from mlxctl.server.policy.store_backend import StoredPolicy
from mlxctl.state import locations
from mlxctl.state.installed import missing_for
from mlxctl.state.settings import GuardrailSettings, OidcSettings, Settings
from mlxctl.state.settings.secret_files import secret_lines
from mlxctl.state.stores.policy import PolicyStore

if TYPE_CHECKING:
    from mlxctl.server.policy.oidc import OidcTokens


def policy_service(settings: Settings) -> PolicyService:
    """Return the authentication, limits and guardrails of a server. Raises SettingsError."""
    of_settings, stored = open_policy(settings)
    opa = None
    if settings.opa.url is not None:
        if not is_http_url(settings.opa.url):
            raise SettingsError(
                f"opa.url: {settings.opa.url!r} is not a URL such as http://127.0.0.1:8181/v1/data/mlxctl/decision"
            )
        # Imports httpx, which most servers do not need.
        from mlxctl.server.policy.opa import OpaPolicy

        opa = OpaPolicy(
            stored,
            settings.opa.url,
            timeout_seconds=settings.opa.timeout_seconds,
            on_error=settings.opa.on_error,
            cache_seconds=settings.opa.cache_seconds,
        )
    return PolicyService(of_settings, stored, opa=opa, oidc=_open_oidc(settings.oidc))


def _open_oidc(settings: OidcSettings) -> "OidcTokens | None":
    """Return the validation of an identity provider's tokens. Raises SettingsError."""
    if settings.issuer is None:
        if settings.audience is not None:
            raise SettingsError("oidc.audience needs oidc.issuer")
        return None
    if missing := missing_for("oidc"):
        raise SettingsError(f"oidc.issuer needs {missing}")
    # Imports httpx and joserfc, which most servers do not need.
    from mlxctl.server.policy.jwks import JwksCache, check_provider_url
    from mlxctl.server.policy.oidc import ALGORITHMS, OidcTokens

    if settings.audience is None:
        raise SettingsError("oidc.issuer needs oidc.audience; any token of the provider would be accepted")
    if not settings.algorithms:
        raise SettingsError("oidc.algorithms is empty; no token would be accepted")
    if unknown := sorted(set(settings.algorithms) - set(ALGORITHMS)):
        raise SettingsError(f"oidc.algorithms: {unknown[0]!r} is not one of {', '.join(ALGORITHMS)}")
    try:
        for url in (settings.issuer, settings.jwks_url or settings.issuer):
            check_provider_url(url)
        role_map = msgspec.convert(settings.role_map, dict[str, tuple[Scope, ...]])
    except (ValueError, msgspec.ValidationError) as error:
        raise SettingsError(f"section 'oidc': {error}") from None
    keys = JwksCache(
        settings.issuer,
        settings.jwks_url,
        ttl_seconds=settings.jwks_ttl_seconds,
        stale_seconds=settings.jwks_stale_seconds,
        timeout_seconds=settings.timeout_seconds,
    )
    return OidcTokens(
        keys,
        issuer=settings.issuer,
        audience=settings.audience,
        algorithms=settings.algorithms,
        leeway_seconds=settings.leeway_seconds,
        scope_claim=settings.scope_claim,
        priority_claim=settings.priority_claim,
        role_map=role_map,
    )


def open_policy(settings: Settings) -> tuple[SettingsPolicy, StoredPolicy]:
    """Return the keys of the settings, and of the store. Raises SettingsError."""
    server, limits = settings.server, settings.limits
    of_file = secret_lines(server.api_key_file, "server.api_key_file") if server.api_key_file else ()
    of_settings = SettingsPolicy(
        (*server.api_keys, *of_file),
        server.admin_keys,
        server.cache_groups,
        limits=Limits(
            requests_per_minute=limits.requests_per_minute,
            tokens_per_minute=limits.tokens_per_minute,
            concurrent=limits.concurrent,
            burst=limits.burst,
        ),
        guardrails=_guardrail_rules(settings.guardrails),
    )
    passphrase = settings.policy.passphrase
    if settings.policy.passphrase_file is not None:
        passphrase = secret_lines(settings.policy.passphrase_file, "policy.passphrase_file")[0]
    try:
        file = settings.policy.path or locations.policy_file()
        store = PolicyStore(file, passphrase, keys_marker=locations.keys_marker_file(file))
        return of_settings, StoredPolicy(store, of_settings)
    except StoreUnavailable as error:
        raise SettingsError(f"the policy store cannot be used: {error}") from None


def _guardrail_rules(settings: GuardrailSettings) -> GuardrailRules:
    """Return the rules of the settings. Raises SettingsError."""
    of_file = (
        secret_lines(settings.blocklist_file, "guardrails.blocklist_file") if settings.blocklist_file else ()
    )
    fields = {
        "blocklist": (*settings.blocklist, *of_file),
        "regex": settings.regex,
        "apply_to": settings.apply_to,
        "action": settings.action,
        "models": settings.models,
    }
    try:
        rules = msgspec.convert(fields, GuardrailRules)
        compile_rules(rules)
    except (msgspec.ValidationError, InvalidRequest) as error:
        raise SettingsError(f"section 'guardrails': {error}") from None
    return rules

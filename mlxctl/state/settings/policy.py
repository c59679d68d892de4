"""Settings of policies, guardrails, limits, the audit log and traces."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mlxctl.state.settings.bounds import bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """The store of API keys, limits and guardrails that `mlxctl admin` manages."""

    path: Path | None = None
    """File of the store. Default: `policy.sqlite` in the state directory."""

    passphrase: str | None = field(default=None, repr=False)
    """Passphrase that encrypts the store. Better: MLXCTL_POLICY_PASSPHRASE, or a file."""

    passphrase_file: Path | None = None
    """File whose first line is the passphrase that encrypts the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaSettings:
    """An Open Policy Agent server that decides about requests."""

    url: str | None = None
    """Document to ask, such as http://127.0.0.1:8181/v1/data/mlxctl/decision. Default: no OPA server."""

    timeout_seconds: float = bounded(0.2, least=0.001)
    """Maximum time for an answer."""

    on_error: Literal["deny", "allow"] = "deny"
    """Decision while the server does not answer."""

    cache_seconds: float = bounded(5.0, least=0.0)
    """Time for which a decision about equal facts is repeated without asking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """An OpenID Connect provider whose tokens are accepted like API keys."""

    issuer: str | None = None
    """URL of the provider, exactly as its tokens name it. Default: no tokens are accepted."""

    audience: str | None = None
    """Audience that tokens must name. Needed with `issuer`."""

    jwks_url: str | None = None
    """URL of the signing keys. Default: the provider's discovery document names it."""

    algorithms: tuple[str, ...] = ("RS256",)
    """Accepted signatures: RS256, RS384, RS512, PS256, ..., ES256, ..., Ed25519."""

    scope_claim: str = "scope"
    """Claim with scopes or roles: a name, or a path such as `realm_access.roles`."""

    priority_claim: str | None = None
    """Claim with the most urgent priority of the caller's requests, -100 to 100. Default: no bound."""

    role_map: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Scopes of each role or provider's scope. Default: the claim has scopes of this server."""

    leeway_seconds: float = bounded(60.0, least=0.0, most=600.0)
    """Accepted difference between the clocks of the provider and this server."""

    jwks_ttl_seconds: float = bounded(300.0, least=1.0)
    """Time after which the signing keys are fetched again."""

    jwks_stale_seconds: float = bounded(3600.0, least=0.0)
    """Time for which they are still used while the provider does not answer. 0 refuses tokens at once."""

    timeout_seconds: float = bounded(5.0, least=0.001)
    """Maximum time for an answer of the provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailSettings:
    """Texts that prompts or answers must not have."""

    blocklist: tuple[str, ...] = ()
    """Words or phrases. They match as whole words; upper and lower case are the same."""

    blocklist_file: Path | None = None
    """File with one word or phrase per line, in addition to `blocklist`."""

    regex: tuple[str, ...] = ()
    """Regular expressions. A match may have up to 4,096 characters."""

    apply_to: tuple[str, ...] = ("input", "output")
    """Texts to search: `input` are prompts, `output` answers, thinking and tool calls."""

    action: Literal["refuse", "redact", "flag"] = "refuse"
    """What a match does: `refuse` ends the request, `redact` replaces the text, `flag` only records it."""

    models: tuple[str, ...] = ()
    """Models whose requests are searched, as globs. Default: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """Rate limits of each key.

    Without keys they hold for each remote address.
    """

    requests_per_minute: int = bounded(0, least=0)
    """Maximum number of requests in any minute. 0 is no limit."""

    tokens_per_minute: int = bounded(0, least=0)
    """Maximum number of computed prompt tokens and generated tokens in any minute. 0 is no limit."""

    concurrent: int = bounded(0, least=0)
    """Maximum number of open requests. 0 is no limit."""

    burst: int = bounded(0, least=0)
    """Maximum number of requests in any second. 0 is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """The audit log: one record per request, with keyed hashes."""

    enabled: bool = False
    """Write an audit log."""

    path: Path | None = None
    """Directory of the audit log. Default: `audit` in the state directory."""

    retention_days: float = bounded(30.0, least=0.001)
    """Time after which records are deleted, in whole files."""

    max_bytes: int = bounded(1024**3, least=1024)
    """Maximum size of the audit log. The oldest files are deleted first."""

    debug: bool = False
    """Write prompts and answers to the audit log as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """Trace spans of requests for an OpenTelemetry collector."""

    otlp_endpoint: str | None = None
    """URL of the collector, such as http://127.0.0.1:4318 (OTLP over HTTP). Default: no traces."""

    service_name: str = "mlxctl"
    """Name of this server in the traces."""

    sample_ratio: float = bounded(1.0, least=0.0, most=1.0)
    """Share of the requests that are traced. A caller's `traceparent` decides for its requests."""

    headers: dict[str, str] = field(default_factory=dict, repr=False)
    """HTTP header for the collector, such as a key."""

"""Tokens of an identity provider: signatures, claims, keys, outages."""

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlxctl.ir.errors import AuthenticationFailed, InvalidToken, PolicyUnavailable, SettingsError
from mlxctl.ir.policy import SCOPES
from mlxctl.protocols import openai_error
from mlxctl.server.policy import Caller, PolicyService, SettingsPolicy
from mlxctl.server.policy.jwks import MAX_DOCUMENT_BYTES, JwksCache, signing_keys
from mlxctl.server.policy.oidc import OidcTokens
from mlxctl.server.wiring.policy import policy_service
from mlxctl.state.settings import OidcSettings, PolicySettings, Settings
from tests.server.policy.identity_provider import (
    AUDIENCE,
    CURVE_KEY,
    KEYS,
    SHARED_KEY,
    IdentityProvider,
    identity_provider,
)


@pytest.fixture(scope="module")
def running() -> Iterator[IdentityProvider]:
    with identity_provider() as server:
        yield server


@pytest.fixture
def provider(running: IdentityProvider) -> IdentityProvider:
    """The provider with one key, before its first fetch."""
    running.keys, running.status = [KEYS["first"]], 200
    running.documents.clear()
    running.paths.clear()
    return running


def tokens(provider: IdentityProvider, *, clock: Any = time.monotonic, **options: Any) -> OidcTokens:
    of_keys = {name: options.pop(name) for name in ("ttl_seconds", "stale_seconds", "url") if name in options}
    keys = JwksCache(provider.issuer, clock=clock, **of_keys)
    return OidcTokens(keys, issuer=provider.issuer, audience=AUDIENCE, **options)


def caller(provider: IdentityProvider, token: str, **options: Any) -> Caller:
    async def ask() -> Caller:
        validator = tokens(provider, **options)
        try:
            return await validator.caller(token)
        finally:
            await validator.close()

    return asyncio.run(ask())


def test_token_names_caller_and_scopes(provider: IdentityProvider) -> None:
    ann = caller(provider, provider.token(scope="openid generate embed"))
    bob = caller(provider, provider.token(sub="bob", scope=None))
    assert (ann.name, ann.scopes) == ("oidc:ann", {"generate", "embed"})
    assert (bob.name, bob.scopes) == ("oidc:bob", frozenset())
    assert ann.cache_scope != bob.cache_scope
    assert provider.paths == ["/.well-known/openid-configuration", "/keys"] * 2


@pytest.mark.parametrize(
    ("options", "claims", "scopes"),
    [
        ({}, {"scope": "admin"}, set(SCOPES)),
        ({}, {"scope": ["generate", 7, "audio"]}, {"generate", "audio"}),
        ({}, {"scope": {"generate": True}}, set()),
        ({"role_map": {"staff": ("generate",)}}, {"scope": "staff admin"}, {"generate"}),
        (
            {"role_map": {"ops": ("metrics:read",)}, "scope_claim": "realm_access.roles"},
            {"realm_access": {"roles": ["ops", "other"]}},
            {"metrics:read"},
        ),
        ({"scope_claim": "https://id.test/roles"}, {"https://id.test/roles": ["embed"]}, {"embed"}),
    ],
)
def test_claims_are_mapped_to_scopes(
    provider: IdentityProvider, options: dict[str, Any], claims: dict[str, Any], scopes: set[str]
) -> None:
    assert caller(provider, provider.token(**claims), **options).scopes == scopes


@pytest.mark.parametrize(("claims", "priority"), [({}, None), ({"mlxctl": {"priority": -5}}, -5)])
def test_claim_limits_the_priority(
    provider: IdentityProvider, claims: dict[str, Any], priority: int | None
) -> None:
    token = provider.token(**claims)
    assert caller(provider, token, priority_claim="mlxctl.priority").priority == priority
    assert caller(provider, token).priority is None


@pytest.mark.parametrize("value", [101, True, "5", 1.5])
def test_claim_that_is_no_priority_is_refused(provider: IdentityProvider, value: object) -> None:
    with pytest.raises(InvalidToken, match="'urgency' is not a whole number"):
        caller(provider, provider.token(urgency=value), priority_claim="urgency")


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unsigned(provider: IdentityProvider) -> str:
    """Return a token with the algorithm `none`."""
    _, claims, _ = provider.token().split(".")
    header = encoded(b'{"alg":"none","kid":"first"}')
    return f"{header}.{claims}."


def signed_with_public_key(provider: IdentityProvider) -> str:
    """Return a token whose HMAC secret is the public key."""
    _, claims, _ = provider.token().split(".")
    header = encoded(b'{"alg":"HS256","kid":"first"}')
    content = f"{header}.{claims}"
    signature = hmac.digest(KEYS["first"].as_pem(private=False), content.encode(), "sha256")
    return f"{content}.{encoded(signature)}"


def nested_header() -> str:
    """Return a header with a deeply nested field."""
    text = '{"alg":"RS256","kid":"first","x":' + "[" * 5000 + "]" * 5000 + "}"
    return encoded(text.encode())


def changed(provider: IdentityProvider) -> str:
    """Return a token whose claims were changed after it was signed."""
    header, claims, signature = provider.token().split(".")
    content = json.loads(base64.urlsafe_b64decode(claims + "=="))
    forged = encoded(json.dumps({**content, "scope": "admin"}).encode())
    return f"{header}.{forged}.{signature}"


@pytest.mark.parametrize(
    ("create", "reason"),
    [
        (unsigned, "not signed with RS256"),
        (signed_with_public_key, "not signed with RS256"),
        (changed, "signature"),
        (lambda provider: provider.token(exp=int(time.time()) - 61), "has expired"),
        (lambda provider: provider.token(exp=None), "claim 'exp'"),
        (lambda provider: provider.token(exp="tomorrow"), "claim 'exp'"),
        (lambda provider: provider.token(nbf=int(time.time()) + 90), "claim 'nbf' is in the future"),
        (lambda provider: provider.token(iss="https://elsewhere.test"), "claim 'iss'"),
        (lambda provider: provider.token(aud="another-api"), "claim 'aud'"),
        (lambda provider: provider.token(aud=None), "claim 'aud'"),
        (lambda provider: provider.token(sub=None), "claim 'sub'"),
        (lambda provider: provider.token(sub="a\nb"), "subject"),
        (lambda provider: provider.token(sub=7), "'sub'|subject"),
        (lambda provider: provider.token(key=KEYS["second"]), "a key that the identity provider"),
        (lambda provider: provider.token(key=KEYS["second"], header={"kid": "first"}), "signature"),
        (lambda provider: provider.token(header={"alg": "RS512"}), "not signed with RS256"),
        (lambda provider: provider.token(header={"typ": "dpop+jwt"}), "not an access token"),
        (lambda provider: provider.token(scope="x" * 20_000), "more than 16384 characters"),
        (lambda _: "eyJ.e30.AA", "header is malformed"),
        (lambda _: f"{nested_header()}.e30.AA", "header is malformed|signature|a key"),
        (lambda _: "eyJ\xe9.e30.AA", "header is malformed"),
    ],
)
def test_unacceptable_tokens_are_refused_with_a_reason(
    provider: IdentityProvider, create: Any, reason: str
) -> None:
    with pytest.raises(InvalidToken, match=reason) as refused:
        caller(provider, create(provider))
    answer = openai_error(refused.value)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith('Bearer realm="mlxctl", error="invalid_token", ')
    assert answer.headers["WWW-Authenticate"].isascii()


@pytest.mark.parametrize("claims", [{"exp": -50}, {"nbf": 50}])
def test_clocks_may_differ_by_the_leeway(provider: IdentityProvider, claims: dict[str, int]) -> None:
    token = provider.token(**{name: int(time.time()) + seconds for name, seconds in claims.items()})
    assert caller(provider, token).name == "oidc:ann"
    with pytest.raises(InvalidToken):
        caller(provider, token, leeway_seconds=10.0)


def test_other_algorithms_must_be_allowed(provider: IdentityProvider) -> None:
    provider.keys = [KEYS["first"], CURVE_KEY]
    token = provider.token(key=CURVE_KEY, header={"alg": "ES256"})
    with pytest.raises(InvalidToken):
        caller(provider, token)
    assert caller(provider, token, algorithms=["RS256", "ES256"]).name == "oidc:ann"


def test_small_and_symmetric_keys_are_never_used(provider: IdentityProvider) -> None:
    small = {"kty": "RSA", "kid": "small", "e": "AQAB", "n": encoded(b"\xff" * 128)}
    document = json.dumps({"keys": [small, SHARED_KEY.as_dict(), CURVE_KEY.as_dict(private=False)]})
    assert [key.id for key in signing_keys(document.encode())] == ["curve"]


def test_rotated_key_is_fetched_once_it_is_used(provider: IdentityProvider) -> None:
    now = 0.0

    async def use() -> None:
        nonlocal now
        validator = tokens(provider, clock=lambda: now)
        await validator.caller(provider.token())
        provider.keys = [KEYS["second"]]
        with pytest.raises(InvalidToken):
            # Too soon after the last fetch: made-up key ids must not cause one each.
            await validator.caller(provider.token(key=KEYS["second"]))
        now = 11.0
        await validator.caller(provider.token(key=KEYS["second"]))
        with pytest.raises(InvalidToken):
            await validator.caller(provider.token())
        await validator.close()

    asyncio.run(use())
    assert provider.paths.count("/keys") == 2


def test_keys_hold_for_a_while_when_the_provider_fails(
    provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0

    async def use() -> None:
        nonlocal now
        validator = tokens(provider, clock=lambda: now, ttl_seconds=100.0, stale_seconds=50.0)
        await validator.caller(provider.token())
        provider.status = 500
        for seconds in (101.0, 101.5, 149.0):
            now = seconds
            await validator.caller(provider.token())
        now = 151.0
        with pytest.raises(PolicyUnavailable, match="cannot be fetched"):
            await validator.caller(provider.token())
        provider.status, now = 200, 300.0
        await validator.caller(provider.token())
        await validator.close()

    asyncio.run(use())
    assert len(caplog.messages) == 1
    # Two requests at the start and at the end, one each at 101, 149 and 151 s, and none at 101.5 s: after the
    # first failure a fetch is repeated after a second.
    assert len(provider.paths) == 7


@pytest.mark.parametrize(
    "document",
    [
        b"{",
        b"[" * 100_000,
        b"[]",
        b'{"keys": []}',
        b'{"keys": [7, {"kty": "RSA"}]}',
        b" " * (MAX_DOCUMENT_BYTES + 1),
    ],
)
def test_unusable_documents_leave_tokens_unchecked(provider: IdentityProvider, document: bytes) -> None:
    provider.documents["/keys"] = document
    with pytest.raises(PolicyUnavailable):
        caller(provider, provider.token())


def test_discovery_of_another_issuer_is_refused(provider: IdentityProvider) -> None:
    foreign = {"issuer": "https://elsewhere.test", "jwks_uri": f"{provider.issuer}/keys"}
    provider.documents["/.well-known/openid-configuration"] = json.dumps(foreign).encode()
    with pytest.raises(PolicyUnavailable):
        caller(provider, provider.token())
    assert caller(provider, provider.token(), url=f"{provider.issuer}/keys").name == "oidc:ann"


def test_concurrent_requests_share_one_fetch(provider: IdentityProvider) -> None:
    async def use() -> None:
        validator = tokens(provider)
        await asyncio.gather(*(validator.caller(provider.token()) for _ in range(8)))
        await validator.close()

    asyncio.run(use())
    assert provider.paths.count("/keys") == 1


def test_service_accepts_tokens_beside_keys(provider: IdentityProvider) -> None:
    async def use() -> None:
        policy = PolicyService(SettingsPolicy(["one"]), oidc=tokens(provider))
        assert (await policy.authenticate(authorization="Bearer one", x_api_key=None)).name
        for headers in ({"authorization": f"Bearer {provider.token()}"}, {"x_api_key": provider.token()}):
            found = await policy.authenticate(**{"authorization": None, "x_api_key": None, **headers})
            assert found.name == "oidc:ann"
        with pytest.raises(AuthenticationFailed, match="API key is required"):
            await policy.authenticate(authorization=None, x_api_key=None)
        await policy.close()

    asyncio.run(use())


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"audience": "api"}, "needs oidc.issuer"),
        ({"issuer": "https://id.test"}, "needs oidc.audience"),
        ({"issuer": "http://id.test", "audience": "api"}, "not an https URL"),
        ({"issuer": "https://id.test", "audience": "api", "algorithms": ("HS256",)}, "'HS256' is not one of"),
        ({"issuer": "https://id.test", "audience": "api", "algorithms": ()}, "oidc.algorithms is empty"),
        ({"issuer": "https://id.test", "audience": "api", "algorithms": ("none",)}, "'none' is not one of"),
        ({"issuer": "https://id.test", "audience": "api", "role_map": {"x": ("root",)}}, "section 'oidc'"),
        ({"issuer": "https://id.test", "audience": "api", "jwks_url": "ftp://id.test"}, "not an https URL"),
    ],
)
def test_invalid_settings_name_the_field(tmp_path: Path, fields: dict[str, Any], problem: str) -> None:
    store = PolicySettings(path=tmp_path / "policy.sqlite")
    with pytest.raises(SettingsError, match=problem):
        policy_service(Settings(oidc=OidcSettings(**fields), policy=store))

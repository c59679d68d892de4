"""API keys and admin keys."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import pytest

from mlxctl.ir.allowed_models import EVERY_MODEL
from mlxctl.ir.errors import AuthenticationFailed
from mlxctl.ir.policy import SCOPES, USER_SCOPES
from mlxctl.server.policy import Caller, PolicyService, SettingsPolicy


def policy(
    api_keys: Sequence[str] = (),
    admin_keys: Sequence[str] = (),
    cache_groups: Mapping[str, Sequence[str]] | None = None,
) -> PolicyService:
    return PolicyService(SettingsPolicy(api_keys, admin_keys, cache_groups))


ANONYMOUS = Caller(name="", scopes=frozenset(SCOPES), models=EVERY_MODEL, sees_others=True)


def test_every_caller_is_accepted_without_configured_keys() -> None:
    assert policy().identify(authorization=None, x_api_key=None) == ANONYMOUS
    assert policy().identify(authorization="Bearer dummy", x_api_key=None).name == ""


@pytest.mark.parametrize(
    ("authorization", "x_api_key"),
    [
        ("Bearer two", None),
        ("bearer  two", None),
        (None, "one"),
        ("Bearer stale", "one"),
        ("Basic zzz", "two"),
    ],
)
def test_either_header_authenticates(authorization: str | None, x_api_key: str | None) -> None:
    assert policy(["one", "two"]).identify(authorization=authorization, x_api_key=x_api_key)


@pytest.mark.parametrize(
    ("authorization", "x_api_key"),
    [
        (None, None),
        ("Bearer three", None),
        ("Bearer ", None),
        ("one", None),
        ("Basic one", None),
        (None, "onE"),
        (None, ""),
    ],
)
def test_other_headers_and_keys_are_rejected(authorization: str | None, x_api_key: str | None) -> None:
    with pytest.raises(AuthenticationFailed):
        policy(["one", "two"]).identify(authorization=authorization, x_api_key=x_api_key)


def test_digests_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[str, str]] = []

    def compare(one: str, other: str) -> bool:
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr("mlxctl.server.policy.key_table.hmac", SimpleNamespace(compare_digest=compare))
    policy(["one", "two"]).identify(authorization="Bearer two", x_api_key=None)
    digest = hashlib.sha256(b"two").hexdigest()
    assert compared == [(digest, digest)]


def test_caller_names_are_stable_and_distinct() -> None:
    keys = policy(["one", "two"])
    name = keys.identify(authorization="Bearer one", x_api_key=None)
    assert name == keys.identify(authorization=None, x_api_key="one")
    assert name != keys.identify(authorization=None, x_api_key="two")


def test_keys_are_not_stored() -> None:
    keys = SettingsPolicy(["open sesame"])
    assert "open sesame" not in repr([vars(keys), keys.all_keys()])


@pytest.mark.parametrize(
    ("api_keys", "key", "may_administer"),
    [
        (["one"], "one", False),
        (["one"], "boss", True),
        ([], None, False),
        ([], "guess", False),
        ([], "boss", True),
    ],
)
def test_only_admin_keys_administer_if_configured(
    api_keys: list[str], key: str | None, may_administer: bool
) -> None:
    caller = policy(api_keys, ["boss"]).identify(authorization=key and f"Bearer {key}", x_api_key=None)
    assert ("admin" in caller.scopes, caller.sees_others) == (may_administer, may_administer)


def test_admin_key_is_accepted_in_either_header() -> None:
    keys = policy(["one"], ["boss"])
    caller = keys.identify(authorization="Bearer boss", x_api_key="one")
    assert caller == keys.identify(authorization=None, x_api_key="boss")
    assert "admin" in caller.scopes


def test_admin_keys_alone_do_not_require_a_key() -> None:
    assert policy([], ["boss"]).identify(authorization=None, x_api_key=None) == Caller(
        name="", scopes=frozenset(USER_SCOPES), models=EVERY_MODEL
    )

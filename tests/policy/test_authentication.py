"""API keys and admin keys."""

import pytest

from mlxctl.errors import AuthenticationFailed
from mlxctl.policy import Caller, KeyCheck


def test_every_caller_is_accepted_without_configured_keys() -> None:
    assert KeyCheck(()).identify(authorization=None, x_api_key=None) == Caller(name="", may_administer=True)
    assert KeyCheck(()).identify(authorization="Bearer dummy", x_api_key=None).name == ""


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
    assert KeyCheck(["one", "two"]).identify(authorization=authorization, x_api_key=x_api_key)


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
        KeyCheck(["one", "two"]).identify(authorization=authorization, x_api_key=x_api_key)


def test_caller_names_are_stable_and_distinct() -> None:
    keys = KeyCheck(["one", "two"])
    name = keys.identify(authorization="Bearer one", x_api_key=None)
    assert name == keys.identify(authorization=None, x_api_key="one")
    assert name != keys.identify(authorization=None, x_api_key="two")


def test_keys_are_not_stored() -> None:
    assert "open sesame" not in repr(vars(KeyCheck(["open sesame"])))


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
    caller = KeyCheck(api_keys, ["boss"]).identify(authorization=key and f"Bearer {key}", x_api_key=None)
    assert caller.may_administer == may_administer


def test_admin_key_is_accepted_in_either_header() -> None:
    keys = KeyCheck(["one"], ["boss"])
    caller = keys.identify(authorization="Bearer boss", x_api_key="one")
    assert caller == keys.identify(authorization=None, x_api_key="boss")
    assert caller.may_administer


def test_admin_keys_alone_do_not_require_a_key() -> None:
    assert KeyCheck([], ["boss"]).identify(authorization=None, x_api_key=None) == Caller(
        name="", may_administer=False
    )

"""Who is let in by an API key."""

import pytest

from mlxctl.errors import AuthenticationFailed
from mlxctl.policy import Caller, KeyCheck


def test_without_keys_everybody_is_let_in() -> None:
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
def test_either_header_opens_the_door(authorization: str | None, x_api_key: str | None) -> None:
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
def test_anything_else_does_not(authorization: str | None, x_api_key: str | None) -> None:
    with pytest.raises(AuthenticationFailed):
        KeyCheck(["one", "two"]).identify(authorization=authorization, x_api_key=x_api_key)


def test_a_caller_keeps_one_name_and_different_keys_have_different_names() -> None:
    keys = KeyCheck(["one", "two"])
    name = keys.identify(authorization="Bearer one", x_api_key=None)
    assert name == keys.identify(authorization=None, x_api_key="one")
    assert name != keys.identify(authorization=None, x_api_key="two")


def test_the_keys_themselves_are_not_kept() -> None:
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
def test_where_there_are_admin_keys_only_they_administer(
    api_keys: list[str], key: str | None, may_administer: bool
) -> None:
    caller = KeyCheck(api_keys, ["boss"]).identify(authorization=key and f"Bearer {key}", x_api_key=None)
    assert caller.may_administer == may_administer


def test_an_admin_key_counts_whichever_header_it_comes_in() -> None:
    keys = KeyCheck(["one"], ["boss"])
    caller = keys.identify(authorization="Bearer boss", x_api_key="one")
    assert caller == keys.identify(authorization=None, x_api_key="boss")
    assert caller.may_administer


def test_admin_keys_alone_keep_nobody_from_asking() -> None:
    assert KeyCheck([], ["boss"]).identify(authorization=None, x_api_key=None) == Caller(
        name="", may_administer=False
    )

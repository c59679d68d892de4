"""Who is let in by an API key."""

import pytest

from mlxctl.errors import AuthenticationFailed
from mlxctl.policy import KeyCheck


def test_without_keys_everybody_is_let_in() -> None:
    assert KeyCheck(()).identify(authorization=None, x_api_key=None) == ""


@pytest.mark.parametrize(
    ("authorization", "x_api_key"),
    [("Bearer two", None), ("bearer  two", None), (None, "one"), ("Bearer stale", "one"), ("Basic zzz", "two")],
)
def test_either_header_opens_the_door(authorization: str | None, x_api_key: str | None) -> None:
    assert KeyCheck(["one", "two"]).identify(authorization=authorization, x_api_key=x_api_key)


@pytest.mark.parametrize(
    ("authorization", "x_api_key"),
    [(None, None), ("Bearer three", None), ("Bearer ", None), ("one", None), ("Basic one", None), (None, "onE"), (None, "")],
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

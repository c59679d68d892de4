"""Signatures are opaque; one that carries thinking gives it back, any other gives nothing."""

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.protocols.thinking_signature import sign, thinking_from_signature


@given(st.text())
def test_thinking_travels_in_a_signature_that_carries_it(thinking: str) -> None:
    assert thinking_from_signature(sign(thinking, carry=True)) == thinking


@given(st.text())
def test_a_digest_is_never_empty_and_carries_nothing(thinking: str) -> None:
    assert sign(thinking, carry=False)
    assert thinking_from_signature(sign(thinking, carry=False)) == ""


@pytest.mark.parametrize(
    "foreign", [None, "", "EqQBCgIYAhIM", "ünicode", "====", base64.b64encode(b"cbroken").decode()]
)
def test_signatures_of_others_carry_nothing(foreign: str | None) -> None:
    assert thinking_from_signature(foreign) == ""


def test_a_bomb_does_not_unpack() -> None:
    bomb = base64.b64encode(b"c" + zlib.compress(bytes(64 * 1024 * 1024))).decode()
    assert len(thinking_from_signature(bomb)) == 4 * 1024 * 1024

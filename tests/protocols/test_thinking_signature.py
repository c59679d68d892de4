"""Signatures of thinking: round trip and forgery."""

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.protocols.thinking_signature import sign, thinking_from_signature


@given(st.text())
def test_carrying_signature_returns_the_thinking(thinking: str) -> None:
    assert thinking_from_signature(sign(thinking, carry=True)) == thinking


@given(st.text())
def test_digest_signature_carries_nothing(thinking: str) -> None:
    assert sign(thinking, carry=False)
    assert thinking_from_signature(sign(thinking, carry=False)) == ""


@pytest.mark.parametrize(
    "foreign", [None, "", "EqQBCgIYAhIM", "ünicode", "====", base64.b64encode(b"cbroken").decode()]
)
def test_foreign_signatures_carry_nothing(foreign: str | None) -> None:
    assert thinking_from_signature(foreign) == ""


def test_decompression_bomb_is_not_unpacked() -> None:
    bomb = base64.b64encode(b"c" + zlib.compress(bytes(64 * 1024 * 1024))).decode()
    assert len(thinking_from_signature(bomb)) == 4 * 1024 * 1024

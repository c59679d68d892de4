"""Text of cached tokens with images by name."""

import pytest

from mlxctl.inference.cache.token_text import token_text
from mlxctl.ir.tokens import Salt, Tokens, pack

ALPHABET = pack([ord(letter) for letter in "abcdefghij"])
IMAGE = Salt(102, 105, bytes.fromhex("0a1b2c3d4e5f"))


def letters(run: Tokens) -> str:
    return "".join(map(chr, run))


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (100, "ab[image 0a1b2c3d]fghij"),
        (102, "[image 0a1b2c3d]defghij"),
        (104, "[image 0a1b2c3d]bcdefghij"),
        (95, "abcdefg[image 0a1b2c3d]"),
        (93, "abcdefghi[image 0a1b2c3d]"),
    ],
)
def test_image_is_named_at_its_position(start: int, expected: str) -> None:
    assert token_text(ALPHABET, [IMAGE], start, letters) == expected


def test_plain_text_is_unchanged_and_unknown_tokens_give_none() -> None:
    assert token_text(ALPHABET, [], 512, letters) == "abcdefghij"
    assert token_text(ALPHABET, [IMAGE], 100, lambda _: None) is None

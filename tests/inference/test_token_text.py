"""What people read of a chunk: its text, and images by a name of their own, wherever the chunk cuts them."""

import pytest

from mlxctl.inference.cache.token_text import token_text
from mlxctl.ir.tokens import Salt, Tokens, pack

ALPHABET = pack([ord(letter) for letter in "abcdefghij"])
IMAGE = Salt(102, 105, bytes.fromhex("0a1b2c3d4e5f"))


def letters(run: Tokens) -> str:
    return "".join(map(chr, run))


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (100, "ab[image 0a1b2c3d]fghij"),
        (102, "[image 0a1b2c3d]defghij"),
        (104, "[image 0a1b2c3d]bcdefghij"),
        (95, "abcdefg[image 0a1b2c3d]"),
        (93, "abcdefghi[image 0a1b2c3d]"),
    ],
)
def test_an_image_is_named_where_it_stands(start: int, told: str) -> None:
    assert token_text(ALPHABET, [IMAGE], start, letters) == told


def test_text_alone_is_as_it_is_and_what_nobody_can_read_is_nothing() -> None:
    assert token_text(ALPHABET, [], 512, letters) == "abcdefghij"
    assert token_text(ALPHABET, [IMAGE], 100, lambda _: None) is None

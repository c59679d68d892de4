"""Escapes of printable characters in JSON text that comes in pieces."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.formats.parsers.json_escapes import EscapeDecoder, decode_escapes


def escaped(text: str) -> str:
    """Return a JSON string with every character as an escape."""
    units = text.encode("utf-16-be", "surrogatepass")
    return '"' + "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)) + '"'


@given(
    text=st.text(st.characters(categories=None), max_size=8), cuts=st.lists(st.integers(0, 60), max_size=5)
)
def test_decoded_text_has_the_same_value_in_any_pieces(text: str, cuts: list[int]) -> None:
    for source in (escaped(text), json.dumps({text: [text]}), json.dumps(text, ensure_ascii=False)):
        ends = [0, *sorted(cuts), len(source)]
        decoder = EscapeDecoder()
        pieces = [source[start:end] for start, end in itertools.pairwise(ends)]
        decoded = "".join([*map(decoder.feed, pieces), decoder.finish()])
        assert decoded == decode_escapes(source)
        assert json.loads(decoded) == json.loads(source)


@pytest.mark.parametrize(
    ("source", "decoded"),
    [
        (r'"\u0061\u00e9\ud83d\ude00\/"', '"aé😀/"'),
        (r'"\\u0061 \u0022 \u005c \n \u0007"', r'"\\u0061 \u0022 \u005c \n \u0007"'),
        (r"\u12", r"\u12"),
        (r"\uzz \u0061", r"\uzz a"),
        (r"\ud83d\u0061", r"\ud83da"),
    ],
)
def test_only_escapes_of_printable_characters_are_replaced(source: str, decoded: str) -> None:
    assert decode_escapes(source) == decoded

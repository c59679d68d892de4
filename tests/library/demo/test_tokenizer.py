"""The demo tokenizer: lossless, with position-independent words."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from mlxctl.library.demo import MODEL_DIR


@cache
def _tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(MODEL_DIR / "tokenizer.json"))


def _round_trip(text: str) -> str:
    return str(_tokenizer().decode(_tokenizer().encode(text).ids, skip_special_tokens=False))


@given(st.text(max_size=80))
def test_any_text_round_trips(text: str) -> None:
    assert _round_trip(text) == text


@given(
    st.lists(
        st.sampled_from(
            ['{"name": "', '": "', '"}}', "<think>", "</tool_call>", "Ġ", "Ċ", " ", "\n", "é", "a", "7"]
        )
    )
)
def test_text_that_looks_like_tokens_round_trips(pieces: list[str]) -> None:
    assert _round_trip("".join(pieces)) == "".join(pieces)


@pytest.mark.parametrize(
    "marker", ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
)
def test_markers_are_single_tokens_that_decoding_keeps(marker: str) -> None:
    ids = _tokenizer().encode(f"a{marker}b").ids
    assert len(ids) == 3
    assert _tokenizer().decode(ids) == f"a{marker}b"


@pytest.mark.parametrize("special", ["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
def test_special_tokens_are_dropped_on_request(special: str) -> None:
    ids = _tokenizer().encode(f"a{special}b").ids
    assert len(ids) == 3
    assert _tokenizer().decode(ids, skip_special_tokens=True) == "ab"


@given(st.from_regex(r"[a-z]{1,12}", fullmatch=True))
def test_word_has_the_same_tokens_at_every_position(word: str) -> None:
    alone = _tokenizer().encode(word).tokens
    assert _tokenizer().encode(f'say "{word}", {word}!').tokens.count(alone[0]) >= 2
    assert _tokenizer().encode(f" {word}").tokens[1:] == alone

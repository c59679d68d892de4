"""Incremental detokenizing equals decoding at once."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary

from . import tokenizers_in_code as build

BYTE_LEVEL, LLAMA, GEMMA = build.byte_level(), build.sentencepiece(), build.sentencepiece(0)
METASPACE, WORDPIECE = build.metaspace(), build.wordpiece()
VOCABULARIES = {
    id(tokenizer): Vocabulary(tokenizer) for tokenizer in (BYTE_LEVEL, LLAMA, GEMMA, METASPACE, WORDPIECE)
}


def _streamed(tokenizer: Any, ids: list[int]) -> str:
    detokenizer = VOCABULARIES[id(tokenizer)].detokenizer()
    return "".join(detokenizer.feed(token_id) for token_id in ids) + detokenizer.finish()


def _ids(tokenizer: Any) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, tokenizer.get_vocab_size() - 1), max_size=40)


@settings(max_examples=120, deadline=None)
@given(_ids(BYTE_LEVEL))
def test_byte_level_detokenizer_equals_the_tokenizers_decoding(ids: list[int]) -> None:
    assert _streamed(BYTE_LEVEL, ids) == BYTE_LEVEL.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("tokenizer", [LLAMA, GEMMA], ids=["llama", "gemma"])
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_sentencepiece_detokenizer_equals_the_tokenizers_decoding(
    tokenizer: Any, data: st.DataObject
) -> None:
    byte_runs = st.text(st.characters(exclude_categories=["Cs"]), max_size=3).map(
        lambda text: [byte + 1 for byte in text.encode()]
    )
    pieces = st.integers(257, tokenizer.get_vocab_size() - 1).map(lambda token_id: [token_id])
    ids = [token_id for run in data.draw(st.lists(byte_runs | pieces, max_size=20)) for token_id in run]
    expected = tokenizer.decode(ids, skip_special_tokens=False)
    assume("\ufffd" not in expected)
    assert _streamed(tokenizer, ids) == expected


@pytest.mark.parametrize("tokenizer", [METASPACE, WORDPIECE], ids=["metaspace", "wordpiece"])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_other_decoders_use_the_tokenizers_decoding(tokenizer: Any, data: st.DataObject) -> None:
    ids = data.draw(_ids(tokenizer))
    assert _streamed(tokenizer, ids) == tokenizer.decode(ids, skip_special_tokens=False)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_byte_level_encoding(text: str) -> None:
    assert _streamed(BYTE_LEVEL, VOCABULARIES[id(BYTE_LEVEL)].encode(text)) == text


def test_character_is_emitted_with_its_last_byte() -> None:
    vocabulary = VOCABULARIES[id(BYTE_LEVEL)]
    ids = [vocabulary.id_of(char) for char in "ðŁĺĢ"]
    detokenizer = vocabulary.detokenizer()
    assert [detokenizer.feed(token_id) for token_id in ids if token_id is not None] == ["", "", "", "😀"]
    assert detokenizer.finish() == ""


def test_broken_character_is_replaced_once() -> None:
    vocabulary = VOCABULARIES[id(BYTE_LEVEL)]
    first = vocabulary.id_of("ð")
    assert first is not None
    detokenizer = vocabulary.detokenizer()
    assert (detokenizer.feed(first), detokenizer.finish()) == ("", "\ufffd")


def test_leading_space_is_text_for_byte_level_and_gemma_only() -> None:
    the = {id(tokenizer): tokenizer.token_to_id("▁the") for tokenizer in (LLAMA, GEMMA)}
    assert _streamed(BYTE_LEVEL, VOCABULARIES[id(BYTE_LEVEL)].encode(" the")) == " the"
    assert _streamed(GEMMA, [the[id(GEMMA)]] * 2) == " the the"
    assert _streamed(LLAMA, [the[id(LLAMA)]] * 2) == "the the"


def test_unknown_id_has_no_text() -> None:
    assert _streamed(BYTE_LEVEL, [10_000_000]) == ""

"""Repeated texts get their stored ids, and only exactly those texts."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.formats.adapters import ModelAdapter, PreparedInput
from mlxctl.formats.adapters.tokens.encoded_segments import EncodedSegments
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.ir import Message, TextPart, ThinkingPart, ToolCallPart, ToolChoice, text_message

from . import tokenizers_in_code as build
from .requests import WEATHER, ask, decode

TOKENIZERS = {
    "byte level": build.byte_level(),
    "llama": build.sentencepiece(),
    "gemma": build.sentencepiece(0),
    "metaspace": build.metaspace(),
    "wordpiece": build.wordpiece(),
}
VOCABULARIES = {name: Vocabulary(tokenizer) for name, tokenizer in TOKENIZERS.items()}
WITH_BYTES = ["byte level", "llama", "gemma"]
PIECES = st.lists(
    st.sampled_from(
        [*build.SPECIAL, *build.MARKERS, "two words\n", "naïve", "the", " ", "  ", "\n", "answer", "你"]
    )
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    max_size=12,
).map("".join)


@pytest.mark.parametrize("name", VOCABULARIES)
@settings(max_examples=100, deadline=None)
@given(texts=st.lists(PIECES, min_size=1, max_size=4))
def test_text_that_was_not_generated_gets_the_tokenizers_ids(name: str, texts: list[str]) -> None:
    vocabulary = VOCABULARIES[name]
    known = EncodedSegments(vocabulary)

    for text in [*texts, "".join(texts), *texts]:
        assert known.encode(text)[0] == vocabulary.encode(text)


@pytest.mark.parametrize("name", WITH_BYTES)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_stored_answer_encodes_to_its_generated_ids(name: str, data: st.DataObject) -> None:
    vocabulary, tokenizer = VOCABULARIES[name], TOKENIZERS[name]
    known = EncodedSegments(vocabulary)
    prompt = data.draw(PIECES) + "<|im_start|>assistant\n"
    generated = data.draw(st.lists(st.integers(0, tokenizer.get_vocab_size() - 1), max_size=20))
    prompt_ids, opened = known.encode(prompt)
    known.store(known.segments_of(opened, generated))

    later = (
        prompt + tokenizer.decode(generated, skip_special_tokens=False) + "<|im_end|>\n" + data.draw(PIECES)
    )
    ids = known.encode(later)[0]

    assert ids[: len(prompt_ids)] == prompt_ids
    assert _read(vocabulary, ids) == _read(vocabulary, vocabulary.encode(later))


def test_generated_token_boundary_is_kept_in_a_longer_text() -> None:
    vocabulary = VOCABULARIES["byte level"]
    known = EncodedSegments(vocabulary)
    generated = [vocabulary.encode(letter)[-1] for letter in "the"]
    assert generated != vocabulary.encode("the")
    prompt_ids, opened = known.encode("<|im_start|>a\n")
    known.store(known.segments_of(opened, [*generated, vocabulary.cuts["<|im_end|>"]]))

    ids, _ = known.encode("<|im_start|>a\nthe<|im_end|>more")

    assert ids[: len(prompt_ids) + 3] == [*prompt_ids, *generated]
    assert known.encode("x<|im_start|>a\nthe")[0] == vocabulary.encode("x<|im_start|>a\nthe")


def test_answer_that_ends_inside_a_character_is_not_stored() -> None:
    vocabulary = VOCABULARIES["byte level"]
    known = EncodedSegments(vocabulary)
    _, opened = known.encode("<|im_start|>a\n")
    num_bytes = known.num_bytes

    known.store(known.segments_of(opened, vocabulary.encode("你")[:1]))

    assert known.num_bytes == num_bytes


def test_least_recently_used_segments_are_evicted() -> None:
    known = EncodedSegments(VOCABULARIES["byte level"], max_bytes=4000)

    for number in range(200):
        known.encode(f"<|im_start|>user {number}<|im_end|>")

    assert 0 < known.num_bytes <= 4000


def store_answer(adapter: ModelAdapter, prepared: PreparedInput, generated_ids: list[int]) -> None:
    assert prepared.opened is not None
    adapter.store_segments(adapter.answer_segments(prepared.opened, generated_ids))


def test_next_prompt_reuses_the_generated_ids(qwen: ModelAdapter) -> None:
    question = text_message("user", "Hello")
    prepared = qwen.prepare_input(ask(question))
    letters = [token_id for letter in "the answer" for token_id in qwen.vocabulary.encode(letter)]
    assert letters != qwen.vocabulary.encode("the answer")
    before = qwen.prepare_input(ask(question, text_message("assistant", "the answer"), question))

    store_answer(qwen, prepared, [*letters, min(qwen.stop_token_ids)])
    after = qwen.prepare_input(ask(question, text_message("assistant", "the answer"), question))

    num_prompt = len(prepared.token_ids)
    assert after.token_ids[: num_prompt + len(letters)] == (*prepared.token_ids, *letters)
    assert decode(qwen, after.token_ids) == decode(qwen, before.token_ids)
    assert qwen.count_prompt_tokens(ask(question, text_message("assistant", "the answer"), question)) == len(
        after.token_ids
    )


@pytest.mark.parametrize(
    "answer",
    [
        Message(role="assistant", parts=(TextPart(text="other words"),)),
        Message(role="assistant", parts=(ThinkingPart(text="hm"), TextPart(text="the answer"))),
        Message(role="assistant", parts=(ToolCallPart(id="call_1", name="get_weather", arguments="{}"),)),
    ],
    ids=["other text", "other thinking", "a call"],
)
def test_edited_answer_is_encoded_again(qwen: ModelAdapter, answer: Message) -> None:
    question = text_message("user", "What is the time?")
    request = ask(question, answer, question)
    before = qwen.prepare_input(request).token_ids

    prepared = qwen.prepare_input(ask(question))
    store_answer(
        qwen, prepared, [token_id for letter in "the answer" for token_id in qwen.vocabulary.encode(letter)]
    )

    assert qwen.prepare_input(request).token_ids == before


def test_forced_call_reuses_ids_from_its_forced_prefix(qwen: ModelAdapter) -> None:
    question = text_message("user", "Weather?")
    request = ask(question, tools=(WEATHER,), tool_choice=ToolChoice(mode="named", name="get_weather"))
    prepared = qwen.prepare_input(request)
    opened = prepared.opened

    assert opened is not None
    assert decode(qwen, prepared.token_ids).endswith(opened.before + opened.text)
    assert prepared.token_ids[-len(opened.token_ids) :] == opened.token_ids


def _read(vocabulary: Vocabulary, ids: Any) -> bytes:
    return b"".join(map(vocabulary.bytes_of, ids))


def test_stored_answers_are_used_only_in_their_namespace() -> None:
    vocabulary, tokenizer = VOCABULARIES["byte level"], TOKENIZERS["byte level"]
    known = EncodedSegments(vocabulary)
    prompt, answer = "<|im_start|>assistant\n", "the answer"
    letters = [token for letter in answer for token in tokenizer.encode(letter, add_special_tokens=False).ids]
    known.store(known.segments_of(known.encode(prompt, b"alpha")[1], letters))
    usual = vocabulary.encode(prompt + answer)
    assert known.encode(prompt + answer, b"beta")[0] == known.encode(prompt + answer)[0] == usual
    assert known.encode(prompt + answer, b"alpha")[0] == [*vocabulary.encode(prompt), *letters] != usual

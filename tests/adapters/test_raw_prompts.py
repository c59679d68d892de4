"""A raw prompt is continued as it is: no template, no markers, and no space lost where it goes on."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer, processors

from mlxctl.adapters import ModelAdapter
from mlxctl.errors import ContextTooLong, InvalidRequest
from mlxctl.ir import GenerationRequest, TextDelta

from .directories import adapter_of, write_model
from .tokenizers_in_code import byte_level, sentencepiece


def raw(*prompts: str | tuple[int, ...], echo: bool = False) -> GenerationRequest:
    return GenerationRequest(model="small", prompts=prompts, echo=echo)


def said(adapter: ModelAdapter, request: GenerationRequest, text: str) -> str:
    """What a caller reads when the model goes on with `text`."""
    prepared = adapter.prepare_text(request, request.prompts[0])
    processor = adapter.create_stream_processor(request, prepared)
    events = [*processor.feed(adapter.vocabulary.encode(text)), *processor.finish("stop")]
    assert all(isinstance(event, TextDelta) for event in events[:-1])
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def beginning_with(token: str, tokenizer: Tokenizer) -> Tokenizer:
    """A tokenizer that puts `token` before every text."""
    template = [(token, tokenizer.token_to_id(token))]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{token} $A", special_tokens=template)
    return tokenizer


def test_text_is_encoded_without_a_template(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path))
    prepared = adapter.prepare_text(raw("the fox"), "the fox")
    assert prepared.token_ids == tuple(adapter.vocabulary.encode("the fox"))
    assert prepared.max_tokens == 4096 - len(prepared.token_ids)
    assert prepared.echo == ""


def test_ids_are_taken_as_they_are_and_echoed_as_text(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path))
    ids = tuple(adapter.vocabulary.encode("the fox"))
    assert adapter.prepare_text(raw(ids), ids).token_ids == ids
    assert adapter.prepare_text(raw(ids, echo=True), ids).echo == "the fox"
    assert adapter.prepare_text(raw("the fox", echo=True), "the fox").echo == "the fox"


def test_the_token_that_texts_begin_with_is_put_before_once(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, tokenizer=beginning_with("<|endoftext|>", byte_level())))
    begin = adapter.vocabulary.id_of("<|endoftext|>")
    rest = tuple(adapter.vocabulary.encode("the"))
    assert adapter.prepare_text(raw("the"), "the").token_ids == (begin, *rest)
    assert adapter.prepare_text(raw("the"), "<|endoftext|>the").token_ids == (begin, *rest)
    assert adapter.prepare_text(raw(""), "").token_ids == (begin,)


def test_thinking_and_calls_are_text(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path))
    text = '<think>hm</think><tool_call>{"name": "x", "arguments": {}}</tool_call>'
    assert said(adapter, raw("the"), text) == text


def test_the_space_where_a_text_goes_on_is_kept(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, tokenizer=sentencepiece()))
    assert said(adapter, raw("the fox"), "the") == " the"


@pytest.mark.parametrize(("prompt", "part"), [((), "empty"), ("", "empty"), ((10**6,), "token 1000000")])
def test_what_cannot_be_continued_is_refused(
    tmp_path: Path, prompt: str | tuple[int, ...], part: str
) -> None:
    adapter = adapter_of(write_model(tmp_path))
    with pytest.raises(InvalidRequest, match=part) as refused:
        adapter.prepare_text(raw(prompt), prompt)
    assert refused.value.param == "prompt"


def test_a_text_that_fills_the_context_is_too_long(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path))
    ids = (5,) * 4096
    with pytest.raises(ContextTooLong):
        adapter.prepare_text(raw(ids), ids)
    assert adapter.prepare_text(raw(ids), ids[1:]).max_tokens == 1

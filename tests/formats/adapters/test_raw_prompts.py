"""Raw prompts are continued unchanged: no template, no markers, no lost space."""

from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer, processors

from mlxctl.formats.adapters import ModelAdapter
from mlxctl.ir import GenerationRequest, TextDelta
from mlxctl.ir.errors import ContextTooLong, InvalidRequest

from .directories import adapter_of, write_model
from .tokenizers_in_code import byte_level, sentencepiece


def raw(*prompts: str | tuple[int, ...], echo: bool = False) -> GenerationRequest:
    return GenerationRequest(model="small", prompts=prompts, echo=echo)


def echoed(adapter: ModelAdapter, request: GenerationRequest, text: str) -> str:
    """Return the answer's text when the model generates `text`."""
    prepared = adapter.prepare_text(request, request.prompts[0])
    processor = adapter.create_stream_processor(request, prepared)
    events = [*processor.feed(adapter.vocabulary.encode(text)), *processor.finish("stop")]
    assert all(isinstance(event, TextDelta) for event in events[:-1])
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def beginning_with(token: str, tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer that puts `token` before every text."""
    template = [(token, tokenizer.token_to_id(token))]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{token} $A", special_tokens=template)
    return tokenizer


def test_text_is_encoded_without_a_template(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path))
    prepared = adapter.prepare_text(raw("the fox"), "the fox")
    assert prepared.token_ids == tuple(adapter.vocabulary.encode("the fox"))
    assert prepared.max_tokens == 4096 - len(prepared.token_ids)
    assert prepared.echo == ""


def test_token_ids_are_used_unchanged_and_echoed_as_text(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path))
    ids = tuple(adapter.vocabulary.encode("the fox"))
    assert adapter.prepare_text(raw(ids), ids).token_ids == ids
    assert adapter.prepare_text(raw(ids, echo=True), ids).echo == "the fox"
    assert adapter.prepare_text(raw("the fox", echo=True), "the fox").echo == "the fox"


@pytest.mark.parametrize(("limit", "num_kept"), [(2, 2), (50, 30), (-1, 15)])
def test_long_prompt_keeps_its_last_tokens(tmp_path: Path, limit: int, num_kept: int) -> None:
    adapter = adapter_of(write_model(tmp_path))
    ids = tuple(adapter.vocabulary.encode("the fox" * 30))[-30:]
    request = replace(
        raw(ids, echo=True), max_prompt_tokens=limit, max_context_tokens=20 if limit < 0 else None
    )
    prepared = adapter.prepare_text(replace(request, max_tokens=5), ids)
    assert prepared.token_ids == ids[30 - num_kept :]
    assert prepared.echo == adapter.vocabulary.decode(ids[30 - num_kept :])


@pytest.mark.parametrize("limit", [0, -1])
def test_cut_that_leaves_no_prompt_is_refused(tmp_path: Path, limit: int) -> None:
    adapter = adapter_of(write_model(tmp_path))
    request = replace(raw("the fox"), max_prompt_tokens=limit, max_tokens=4096)
    with pytest.raises(InvalidRequest, match="truncate_prompt_tokens"):
        adapter.prepare_text(request, "the fox")


def test_bos_token_is_added_once(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, tokenizer=beginning_with("<|endoftext|>", byte_level())))
    begin = adapter.vocabulary.id_of("<|endoftext|>")
    rest = tuple(adapter.vocabulary.encode("the"))
    assert adapter.prepare_text(raw("the"), "the").token_ids == (begin, *rest)
    assert adapter.prepare_text(raw("the"), "<|endoftext|>the").token_ids == (begin, *rest)
    assert adapter.prepare_text(raw(""), "").token_ids == (begin,)


def test_thinking_and_calls_are_text(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path))
    text = '<think>hm</think><tool_call>{"name": "x", "arguments": {}}</tool_call>'
    assert echoed(adapter, raw("the"), text) == text


def test_leading_space_of_a_continuation_is_kept(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, tokenizer=sentencepiece()))
    assert echoed(adapter, raw("the fox"), "the") == " the"


@pytest.mark.parametrize(("prompt", "part"), [((), "empty"), ("", "empty"), ((10**6,), "token 1000000")])
def test_unusable_raw_prompts_raise(tmp_path: Path, prompt: str | tuple[int, ...], part: str) -> None:
    adapter = adapter_of(write_model(tmp_path))
    with pytest.raises(InvalidRequest, match=part) as refused:
        adapter.prepare_text(raw(prompt), prompt)
    assert refused.value.param == "prompt"


def test_raw_prompt_that_fills_the_context_raises(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path))
    ids = (5,) * 4096
    with pytest.raises(ContextTooLong):
        adapter.prepare_text(raw(ids), ids)
    assert adapter.prepare_text(raw(ids), ids[1:]).max_tokens == 1

"""Rendering and tokenizing of requests' prompts."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken

from mlxctl.formats.adapters import ModelAdapter
from mlxctl.ir import (
    AudioPart,
    Constraint,
    ImagePart,
    Message,
    TextPart,
    ThinkingOptions,
    ThinkingPart,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
    text_message,
)
from mlxctl.ir.errors import ContextTooLong, InvalidRequest

from .directories import PLAIN_TEMPLATE, QWEN_TEMPLATE, adapter_of, write_model
from .requests import TIME, WEATHER, ask, decode, prompt_of
from .tokenizers_in_code import byte_level

USER = text_message("user", "Hi")


def test_conversation_is_rendered_by_the_template(qwen: ModelAdapter) -> None:
    request = ask(
        text_message("system", "Be brief."),
        USER,
        text_message("assistant", "Hello."),
        text_message("user", "Bye"),
    )
    assert prompt_of(qwen, request) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("text", "rendered"),
    [("I look.", "I look.\n<"), ("I look.\n", "I look.\n<"), ("I look.\n\n", "I look.\n\n<")],
)
def test_white_space_before_a_call_is_rendered_as_generated(
    qwen: ModelAdapter, text: str, rendered: str
) -> None:
    call = ToolCallPart(id="call_1", name="get_weather", arguments='{"city": "Oslo"}')
    answer = Message(role="assistant", parts=(TextPart(text=text), call))
    assert f"{rendered}tool_call>" in prompt_of(qwen, ask(USER, answer, tools=(WEATHER,)))


def test_special_tokens_are_single_ids(qwen: ModelAdapter) -> None:
    prepared = qwen.prepare_input(ask(USER))
    assert prepared.token_ids[0] == qwen.vocabulary.id_of("<|im_start|>")


def test_text_in_several_parts_equals_one_part(qwen: ModelAdapter) -> None:
    blocks = Message(role="user", parts=(TextPart(text="Hel"), TextPart(text="lo")))
    assert (
        qwen.prepare_input(ask(blocks)).token_ids
        == qwen.prepare_input(ask(text_message("user", "Hello"))).token_ids
    )


def test_tool_round_trip_is_rendered_without_loss(qwen: ModelAdapter) -> None:
    call = ToolCallPart(
        id="c1", name="get_weather", arguments='{"city": "Zürich <&>", "b": 1, "a": [1.5, null]}'
    )
    result = ToolResultPart(call_id="c1", content=(TextPart(text="sunny"), TextPart(text="warm")))
    request = ask(
        USER,
        Message(role="assistant", parts=(ThinkingPart(text="a call"), TextPart(text="I look."), call)),
        Message(role="tool", parts=(result,)),
        tools=(WEATHER,),
    )
    assert prompt_of(qwen, request).endswith(
        "<|im_start|>assistant\n<think>\na call\n</think>\n\nI look.\n<tool_call>\n"
        '{"name": "get_weather", "arguments": {"city": "Zürich <&>", "b": 1, "a": [1.5, '
        "null]}}\n</tool_call><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nsunny\nwarm\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_results_precede_text_and_errors_are_marked(qwen: ModelAdapter) -> None:
    result = ToolResultPart(call_id="c1", content=(TextPart(text="no network"),), is_error=True)
    prompt = prompt_of(qwen, ask(USER, Message(role="user", parts=(result, TextPart(text="Again?")))))
    assert (
        "<tool_response>\nError: no network\n</tool_response><|im_end|>\n<|im_start|>user\nAgain?<|im_end|>"
        in prompt
    )


def test_message_of_results_alone_adds_no_text(qwen: ModelAdapter) -> None:
    result = ToolResultPart(call_id="c1", content=(TextPart(text="sunny"),))
    by_user, by_tool = (
        prompt_of(qwen, ask(USER, Message(role=role, parts=(result,)))) for role in ("user", "tool")
    )
    assert by_user == by_tool


def test_arguments_that_are_no_object_stay_text(qwen: ModelAdapter) -> None:
    calls = tuple(
        ToolCallPart(id=str(number), name="f", arguments=text)
        for number, text in enumerate(("", "[1]", '{"a": '))
    )
    prompt = prompt_of(qwen, ask(USER, Message(role="assistant", parts=calls), USER))
    assert [
        '"arguments": {}}' in prompt,
        '"arguments": [1]}' in prompt,
        '"arguments": {"a": }' in prompt,
    ] == [True] * 3


def test_tools_are_rendered_as_function_definitions(qwen: ModelAdapter) -> None:
    prompt = prompt_of(qwen, ask(USER, tools=(WEATHER, TIME)))
    first, second = (
        json.loads(line) for line in prompt.split("<tools>\n")[1].split("\n</tools>")[0].splitlines()
    )
    assert first["function"] == {
        "name": "get_weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    assert second == {
        "type": "function",
        "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}},
    }


def test_tool_choice_none_removes_tools_from_the_prompt(qwen: ModelAdapter) -> None:
    assert prompt_of(qwen, ask(USER, tools=(WEATHER,), tool_choice=ToolChoice(mode="none"))) == prompt_of(
        qwen, ask(USER)
    )


@pytest.mark.parametrize(
    ("choice", "tail"),
    [
        (ToolChoice(mode="required"), "<tool_call>\n"),
        (ToolChoice(mode="named", name="now"), '<tool_call>\n{"name": "now", "arguments":'),
    ],
)
def test_forced_call_starts_in_the_prompt_without_thinking(
    qwen: ModelAdapter, choice: ToolChoice, tail: str
) -> None:
    request = ask(USER, tools=(WEATHER, TIME), tool_choice=choice, thinking=ThinkingOptions(enabled=True))
    prepared = qwen.prepare_input(request)
    assert prepared.prompt_tail == tail
    assert decode(qwen, prepared.token_ids).endswith(f"assistant\n<think>\n\n</think>\n\n{tail}")


def test_forced_prefix_includes_a_token_across_its_end(tmp_path: Path) -> None:
    tokenizer = byte_level()
    tokenizer.add_tokens([AddedToken('", "arguments": {"', special=False, normalized=False)])
    adapter = adapter_of(write_model(tmp_path, tokenizer=tokenizer))
    prefix = '<tool_call>\n{"name": "%s", "arguments":'
    for tool, tail in ((WEATHER, prefix % "get_weather" + ' {"'), (TIME, prefix % "now")):
        request = ask(USER, tools=(tool,), tool_choice=ToolChoice(mode="named", name=tool.name))
        prepared = adapter.prepare_input(request)
        assert prepared.prompt_tail == tail
        assert decode(adapter, prepared.token_ids).endswith(tail)
        assert adapter.count_prompt_tokens(request) == len(prepared.token_ids)


@pytest.mark.parametrize(
    ("request_options", "param"),
    [
        ({"tool_choice": ToolChoice(mode="required")}, "tool_choice"),
        ({"tool_choice": ToolChoice(mode="named", name="other"), "tools": (WEATHER,)}, "tool_choice"),
        ({"template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
        ({"template_kwargs": {"add_generation_prompt": False}}, "chat_template_kwargs.add_generation_prompt"),
        ({"template_kwargs": {"enable_thinking": "no"}}, "chat_template_kwargs"),
    ],
)
def test_unsupported_options_raise_with_their_field(
    qwen: ModelAdapter, request_options: dict[str, object], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        qwen.prepare_input(ask(USER, **request_options))
    assert refusal.value.param == param


@pytest.mark.parametrize(
    ("thinking", "template_kwargs", "thinks"),
    [
        (ThinkingOptions(), {}, True),
        (ThinkingOptions(enabled=False), {}, False),
        (ThinkingOptions(enabled=False, effort="high"), {"enable_thinking": True}, False),
        (ThinkingOptions(enabled=True, effort="none"), {"enable_thinking": False}, True),
        (ThinkingOptions(effort="high"), {"enable_thinking": False}, False),
        (ThinkingOptions(effort="none"), {}, False),
        (ThinkingOptions(effort="minimal"), {}, False),
        (ThinkingOptions(effort="low"), {}, True),
    ],
)
def test_most_explicit_thinking_option_wins(
    qwen: ModelAdapter, thinking: ThinkingOptions, template_kwargs: dict[str, bool], thinks: bool
) -> None:
    prompt = prompt_of(qwen, ask(USER, thinking=thinking, template_kwargs=template_kwargs))
    assert prompt.endswith("assistant\n" if thinks else "assistant\n<think>\n\n</think>\n\n")


def test_opened_thinking_is_passed_to_the_parser(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, template=PLAIN_TEMPLATE[:-11] + "<think>\n{% endif %}"))
    assert adapter.prepare_input(ask(USER)).prompt_tail == "<think>\n"
    without = adapter.prepare_input(ask(USER, thinking=ThinkingOptions(enabled=False)))
    assert without.prompt_tail == ""
    assert decode(adapter, without.token_ids).endswith("assistant\n<think>\n\n</think>\n\n")


def test_empty_thought_continues_the_header_that_the_prompt_ends_with(tmp_path: Path) -> None:
    template = (
        "{# <|start|>assistant to=self<|message|> #}{% for message in messages %}<|start|>{{ message.role }}"
        "<|message|>{{ message.content }}<|eom|>{% endfor %}<|start|>assistant"
    )
    adapter = adapter_of(write_model(tmp_path, template=template))
    without = prompt_of(adapter, ask(USER, thinking=ThinkingOptions(enabled=False)))
    assert without.endswith("<|start|>assistant to=self<|message|><|eom|><|start|>assistant")
    assert without.count("<|start|>assistant") == 2


def test_thinking_options_are_ignored_without_thinking_support(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, template=PLAIN_TEMPLATE))
    assert not adapter.supports_thinking
    assert prompt_of(adapter, ask(USER, thinking=ThinkingOptions(enabled=False))) == prompt_of(
        adapter, ask(USER)
    )


def test_structured_output_follows_a_thought_that_the_prompt_closed(tmp_path: Path) -> None:
    template = "{% set enable_thinking = false %}" + QWEN_TEMPLATE
    constraint = Constraint(kind="choice", value=["red"], param="guided_choice")
    request = ask(USER, constraint=constraint)
    for path, chat_template, may_think in (("a", QWEN_TEMPLATE, True), ("b", template, False)):
        guidance = (
            adapter_of(write_model(tmp_path / path, template=chat_template)).prepare_input(request).guidance
        )
        assert guidance is not None
        assert ("thought" in guidance.grammar) == may_think


@pytest.mark.parametrize(
    ("part", "param"),
    [
        (ImagePart(data=b"", media_type="image/png"), "messages.1"),
        (AudioPart(data=b"", media_type="audio/wav", param="its place"), "its place"),
    ],
)
def test_text_model_rejects_images_and_audio(
    qwen: ModelAdapter, part: ImagePart | AudioPart, param: str
) -> None:
    with pytest.raises(InvalidRequest, match=r"cannot take (images|audio)") as refusal:
        qwen.prepare_input(ask(USER, Message(role="user", parts=(TextPart(text="Look"), part))))
    assert refusal.value.param == param


def test_prompt_that_fills_the_context_raises_context_too_long(qwen: ModelAdapter) -> None:
    request = ask(text_message("user", "x!" * 4096))
    with pytest.raises(ContextTooLong) as refusal:
        qwen.prepare_input(request)
    assert refusal.value.context_length == 4096
    assert refusal.value.num_prompt_tokens == qwen.count_prompt_tokens(request) > 4096


@pytest.mark.parametrize(("asked", "granted"), [(None, "rest"), (128_000, "rest"), (5, 5), (0, 0)])
def test_max_tokens_is_capped_by_the_remaining_context(
    qwen: ModelAdapter, asked: int | None, granted: int | str
) -> None:
    prepared = qwen.prepare_input(ask(USER, max_tokens=asked))
    assert prepared.max_tokens == (4096 - len(prepared.token_ids) if granted == "rest" else granted)


def test_counted_tokens_equal_prepared_tokens(qwen: ModelAdapter) -> None:
    request = ask(USER, tools=(WEATHER,), tool_choice=ToolChoice(mode="required"))
    assert qwen.count_prompt_tokens(request) == len(qwen.prepare_input(request).token_ids)


def test_many_threads_prepare_at_once(qwen: ModelAdapter) -> None:
    requests = [
        ask(text_message("user", f"question {number} " * 50), tools=(WEATHER,)) for number in range(40)
    ]
    with ThreadPoolExecutor(8) as pool:
        prepared = list(pool.map(qwen.prepare_input, requests))
    assert [answer.token_ids for answer in prepared] == [
        qwen.prepare_input(request).token_ids for request in requests
    ]


def test_token_id_without_weights_raises(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, config={"vocab_size": 300}))
    with pytest.raises(InvalidRequest, match="no weights"):
        adapter.prepare_input(ask(text_message("user", "<|im_end|>")))


def test_last_assistant_message_is_continued_without_its_end(qwen: ModelAdapter) -> None:
    start = text_message("assistant", "I ")
    request = replace(ask(USER, start), continues_answer=True)
    assert prompt_of(qwen, request).endswith("</think>\n\nI ")
    assert prompt_of(qwen, replace(request, continues_answer=False)).endswith(
        "I <|im_end|>\n<|im_start|>assistant\n"
    )


def test_prompt_without_the_header_of_an_answer(qwen: ModelAdapter) -> None:
    request = replace(ask(USER), opens_answer=False)
    assert prompt_of(qwen, request) == "<|im_start|>user\nHi<|im_end|>\n"


@pytest.mark.parametrize(
    ("messages", "options"),
    [
        ([USER], {}),
        ([USER, text_message("assistant", " ")], {}),
        (
            [USER, text_message("assistant", "I")],
            {"tool_choice": ToolChoice(mode="required"), "tools": (TIME,)},
        ),
        (
            [USER, text_message("assistant", "I")],
            {"constraint": Constraint(kind="json_object", value={"type": "object"}, param="response_format")},
        ),
    ],
)
def test_message_that_cannot_be_continued_is_refused(
    qwen: ModelAdapter, messages: list[Message], options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest, match="continued"):
        qwen.prepare_input(replace(ask(*messages), continues_answer=True, **options))

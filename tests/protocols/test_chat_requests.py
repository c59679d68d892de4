"""Chat completion bodies as GenerationRequest."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from mlxctl.ir import (
    AudioPart,
    GenerationRequest,
    ImagePart,
    Message,
    RemoteImagePart,
    SamplingOptions,
    TextPart,
    ThinkingOptions,
    ThinkingPart,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
    ToolSpec,
    text_message,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols import PROTOCOLS
from mlxctl.protocols.openai.chat import parse_chat

from .scripts import CHAT_BODY

WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "Look outside", "parameters": {"type": "object"}},
}
CLOCK = {"type": "function", "function": {"name": "clock"}}


def parse(**fields: Any) -> GenerationRequest:
    return PROTOCOLS["chat"].parse_alone(json.dumps(CHAT_BODY | fields).encode())


def refusal(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    return caught.value


def test_minimal_body_uses_defaults() -> None:
    assert parse() == GenerationRequest(model="tiny", messages=(text_message("user", "Hi"),))


def test_null_equals_absent_in_every_field() -> None:
    optional = (
        "tools tool_choice parallel_tool_calls max_completion_tokens max_tokens temperature top_p top_k "
        "min_p repetition_penalty "
        "presence_penalty frequency_penalty logit_bias seed stop logprobs top_logprobs stream "
        "stream_options reasoning_effort "
        "enable_thinking think thinking reasoning chat_template_kwargs n response_format modalities "
        "functions function_call "
        "web_search_options moderation"
    )
    assert parse(**dict.fromkeys(optional.split())) == parse()


def test_unknown_fields_are_ignored() -> None:
    foreign = {
        "store": True,
        "metadata": {"a": "b"},
        "user": "me",
        "service_tier": "auto",
        "prediction": {"type": "content"},
        "zz": [1],
    }
    stream = {"stream": True, "stream_options": {"include_obfuscation": False}}
    assert parse(**foreign, **stream, modalities=["text"], n=1) == parse(stream=True)


def test_sampling_fields_are_passed_on() -> None:
    options: dict[str, Any] = {
        "temperature": 0,
        "top_p": 0.5,
        "top_k": 40,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "presence_penalty": -2,
        "frequency_penalty": 2,
        "seed": 7,
    }
    request = parse(**options, logit_bias={"50": -100, "7": 1.5}, logprobs=True, top_logprobs=3)
    assert request.sampling == SamplingOptions(**options, logit_bias={50: -100, 7: 1.5}, num_top_logprobs=3)


@pytest.mark.parametrize("top_k", [-1, 0])
def test_top_k_0_and_minus_1_turn_it_off(top_k: int) -> None:
    assert parse(top_k=top_k).sampling.top_k == 0


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_max_tokens_of_minus_1_is_no_limit(field: str) -> None:
    assert parse(**{field: 9}).max_tokens == 9
    assert parse(**{field: -1}).max_tokens is None


def test_negative_seed_maps_to_a_fixed_positive_seed() -> None:
    seeds = [parse(seed=seed).sampling.seed for seed in (-1, -1, -2, 1, 2)]
    assert seeds[0] == seeds[1]
    assert len(set(seeds)) == 4
    assert all(seed is not None and 0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize(("logprobs", "expected"), [(True, 0), (False, None)])
def test_logprobs_without_candidates(logprobs: bool, expected: int | None) -> None:
    assert parse(logprobs=logprobs).sampling.num_top_logprobs == expected


@pytest.mark.parametrize(("stop", "expected"), [("END", ("END",)), (["a", "b"], ("a", "b")), ([], ())])
def test_stop_is_a_string_or_a_list(stop: Any, expected: tuple[str, ...]) -> None:
    assert parse(stop=stop).stop == expected


def test_max_completion_tokens_wins_over_max_tokens() -> None:
    assert parse(max_tokens=5, max_completion_tokens=10**12).max_tokens == 10**12
    assert parse(max_tokens=5).max_tokens == 5


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"reasoning_effort": "high"}, ThinkingOptions(effort="high")),
        ({"reasoning_effort": "none"}, ThinkingOptions(enabled=False)),
        ({"enable_thinking": False}, ThinkingOptions(enabled=False)),
        ({"chat_template_kwargs": {"enable_thinking": True}}, ThinkingOptions(enabled=True)),
        (
            {"chat_template_kwargs": {"enable_thinking": True}, "enable_thinking": False},
            ThinkingOptions(enabled=False),
        ),
        ({"reasoning_effort": "none", "enable_thinking": True}, ThinkingOptions(enabled=True)),
        ({"think": False}, ThinkingOptions(enabled=False)),
        ({"think": "low"}, ThinkingOptions(effort="low")),
        ({"thinking": {"type": "disabled"}}, ThinkingOptions(enabled=False)),
        ({"thinking": {"type": "adaptive"}}, ThinkingOptions()),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 9}},
            ThinkingOptions(enabled=True, max_tokens=9),
        ),
        ({"reasoning": {"enabled": False}}, ThinkingOptions(enabled=False)),
        ({"reasoning": {"effort": "none"}}, ThinkingOptions(enabled=False)),
        ({"reasoning": {"effort": "high"}, "think": False}, ThinkingOptions(enabled=False, effort="high")),
    ],
)
def test_most_explicit_thinking_field_wins(options: dict[str, Any], expected: ThinkingOptions) -> None:
    assert parse(**options).thinking == expected


def test_template_arguments_are_passed_on() -> None:
    request = parse(chat_template_kwargs={"enable_thinking": True, "date": "today", "depth": {"a": [1]}})
    assert request.template_kwargs == {"date": "today", "depth": {"a": [1]}}


def test_tools_and_tool_choices_are_translated() -> None:
    tools = (
        ToolSpec(name="weather", description="Look outside", parameters={"type": "object"}),
        ToolSpec(name="clock"),
    )
    named = {"type": "function", "function": {"name": "clock"}}
    assert parse(tools=[WEATHER, CLOCK]).tools == tools
    assert parse(tools=[CLOCK], tool_choice="none").tool_choice == ToolChoice(mode="none")
    assert parse(tools=[CLOCK], tool_choice="required").tool_choice == ToolChoice(mode="required")
    assert parse(tools=[CLOCK], tool_choice=named).tool_choice == ToolChoice(mode="named", name="clock")
    assert parse(tool_choice="auto").tool_choice == ToolChoice()
    assert parse(parallel_tool_calls=False).parallel_tool_calls is False


def test_allowed_tools_restrict_the_tools() -> None:
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "clock"}}]}
    request = parse(tools=[WEATHER, CLOCK], tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
    assert [tool.name for tool in request.tools] == ["clock"]
    assert request.tool_choice == ToolChoice(mode="required")


def test_hosted_tools_are_dropped_and_reported() -> None:
    body = CHAT_BODY | {"tools": [{"type": "web_search"}, CLOCK, {"type": "mcp", "function": {"name": "x"}}]}
    request, shape = parse_chat(json.dumps(body).encode())
    assert [tool.name for tool in request.tools] == ["clock"]
    assert shape.dropped_tools == ("web_search", "mcp")


def test_conversation_keeps_roles_and_parts() -> None:
    request = parse(
        messages=[
            {"role": "system", "content": "Be brief.", "name": "owner"},
            {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
            {
                "role": "user",
                "content": [{"type": "text", "text": "Look"}, {"type": "text", "text": "!"}],
                "name": "ann",
            },
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "Yes."}, {"type": "refusal", "refusal": "no"}],
                "refusal": "x",
            },
        ]
    )
    assert request.messages == (
        Message(role="system", parts=(TextPart(text="Be brief."),), name="owner"),
        text_message("system", "Be kind."),
        Message(role="user", parts=(TextPart(text="Look"), TextPart(text="!")), name="ann"),
        text_message("assistant", "Yes."),
    )


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("content", [None, "", []])
def test_replayed_call_keeps_thinking_and_arguments(key: str, content: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": '{ "zone":1 }'}}
    answer = {"role": "assistant", "content": content, key: "Which time?", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "noon"}
    messages = parse(messages=[answer, result]).messages
    assert messages[0].parts == (
        ThinkingPart(text="Which time?"),
        ToolCallPart(id="c1", name="clock", arguments='{ "zone":1 }'),
    )
    assert messages[1].parts == (ToolResultPart(call_id="c1", content=(TextPart(text="noon"),)),)


def test_images_and_audio_are_decoded() -> None:
    data = base64.b64encode(b"\x89PNG").decode()
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:image/PNG;base64,{data}", "detail": "high"}},
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
    ]
    message = parse(messages=[{"role": "user", "content": parts}]).messages[0]
    assert message.parts == (
        ImagePart(data=b"\x89PNG", media_type="image/png"),
        AudioPart(data=b"\x89PNG", media_type="audio/wav"),
    )


@pytest.mark.parametrize(
    "encode",
    [
        base64.urlsafe_b64encode,
        base64.encodebytes,
        lambda data: base64.b64encode(data).replace(b"=", b""),
        lambda data: base64.urlsafe_b64encode(data).rstrip(b"=") + b"\r\n",
    ],
)
def test_other_ways_to_write_base64_are_read(encode: Callable[[bytes], bytes]) -> None:
    data = b"\x89PNG\xfb\xff\xfe" * 31
    url = f"data:image/png;base64,{encode(data).decode()}"
    part = {"type": "image_url", "image_url": {"url": url}}
    (read,) = parse(messages=[{"role": "user", "content": [part]}]).messages[0].parts
    assert read == ImagePart(data=data, media_type="image/png")


@pytest.mark.parametrize(
    "url",
    ["ftp://example.org/cat.png", "file:///etc/passwd", "data:text/html;base64,QUFB", "data:image/png,A"],
)
def test_urls_other_than_http_and_image_data_are_refused(url: str) -> None:
    error = refusal(
        messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]
    )
    assert error.param == "messages[0].content[0].image_url.url"
    assert "not fetched" in str(error)


@pytest.mark.parametrize("url", ["https://example.org/cat.png", "HTTP://example.org/cat.png"])
def test_url_of_an_image_is_left_to_be_fetched(url: str) -> None:
    part = {"type": "image_url", "image_url": {"url": url}}
    message = parse(messages=[{"role": "user", "content": [part]}]).messages[0]
    assert message.remote_images == (RemoteImagePart(url=url),)
    assert message.remote_images[0].param == "messages[0].content[0].image_url.url"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"function_call": "auto"}, "function_call"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"moderation": {"model": "omni-moderation-latest"}}, "moderation"),
        ({"messages": [{"role": "assistant", "function_call": {"name": "f"}}]}, "messages[0].function_call"),
    ],
)
def test_unsupported_fields_are_refused_by_name(fields: dict[str, Any], param: str) -> None:
    error = refusal(**fields)
    assert (error.param, error.code) == (param, "unsupported_parameter")
    assert str(error).startswith(param)


def test_stream_options_need_a_stream() -> None:
    assert refusal(stream_options={"include_usage": True}).param == "stream_options"


def test_token_ids_that_are_no_numbers_are_named() -> None:
    error = refusal(logit_bias={"7": 1, "cat": 2, "dog": 3})
    assert str(error) == "every key of logit_bias must be an integer, not a string: 'cat', 'dog'"


def test_several_choices_share_one_prompt() -> None:
    assert parse(n=3).num_choices == 3
    assert parse(n=None).num_choices == parse().num_choices == 1


@pytest.mark.parametrize(
    ("fields", "marks"),
    [
        ({"continue_final_message": True}, {}),
        ({"continue_final_message": True, "add_generation_prompt": False}, {}),
        ({}, {"prefix": True}),
        ({}, {"partial": True}),
    ],
)
def test_last_assistant_message_is_continued_where_asked(
    fields: dict[str, Any], marks: dict[str, Any]
) -> None:
    last = {"role": "assistant", "content": "I am"}
    messages = [{"role": "user", "content": "Hi"}, last | marks]
    assert parse(messages=messages, **fields).continues_answer
    assert not parse(messages=[messages[0], last]).continues_answer


def test_impossible_prompt_endings_are_refused() -> None:
    assert refusal(continue_final_message=True).param == "continue_final_message"
    both = {"continue_final_message": True, "add_generation_prompt": True}
    assert refusal(messages=[{"role": "assistant", "content": "I"}], **both).param == "continue_final_message"
    assert not parse(add_generation_prompt=False).opens_answer


def test_unknown_verbosity_is_refused() -> None:
    assert refusal(verbosity="zzz").param == "verbosity"


def test_one_constraint_may_have_several_names() -> None:
    """Guidance sends it under the names of several versions of vLLM."""
    grammar = 'start: "red" | "blue"'
    twice = parse(guided_grammar=grammar, structured_outputs={"grammar": grammar})
    assert twice.constraint is not None
    assert twice.constraint.value == grammar


@pytest.mark.parametrize("field", ["schema", "value"])
def test_object_format_may_have_a_schema(field: str) -> None:
    """Hugging Face's client sends a JSON schema as `value`."""
    request = parse(response_format={"type": "json_object", field: {"required": ["a"]}})
    assert request.constraint is not None
    assert (request.constraint.kind, request.constraint.value) == ("json_schema", {"required": ["a"]})

"""The demo chat template.

ChatML, tools as JSON lines, thinking on by default.
"""

import json
from typing import Any

import pytest

from mlxctl.library.demo import MODEL_DIR
from tools.demo_model.conversation import assistant, render, system, tool_result, user

WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}},
}
CLOCK = {
    "type": "function",
    "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}},
}


def _called(arguments: Any, **more: Any) -> dict[str, Any]:
    function = {"name": "get_weather", "arguments": arguments}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "id": "1", "function": function}],
        **more,
    }


def test_prompt_ends_with_the_generation_prompt() -> None:
    assert render([system("Be brief."), user("Hi")]) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_disabled_thinking_renders_an_empty_thought() -> None:
    prompt = render([user("Hi")], enable_thinking=False)
    assert prompt.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_tools_are_one_json_line_each_after_the_system_prompt() -> None:
    prompt = render([system("Be brief."), user("Hi")], tools=[WEATHER, CLOCK])
    listed = prompt.split("<tools>\n")[1].split("</tools>")[0]
    assert prompt.startswith("<|im_start|>system\nBe brief.\n\n# Tools\n\n")
    assert [json.loads(line) for line in listed.splitlines()] == [WEATHER, CLOCK]


def test_tools_without_system_prompt_create_a_system_message() -> None:
    assert render([user("Hi")], tools=[WEATHER]).startswith("<|im_start|>system\n# Tools\n\n")


@pytest.mark.parametrize("arguments", [{"city": "Köln"}, '{"city": "Köln"}'])
def test_arguments_render_the_same_as_mapping_and_string(arguments: Any) -> None:
    prompt = render([user("Weather?"), _called(arguments), tool_result("rain")])
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Köln"}}\n</tool_call>'
    assert f"<|im_start|>assistant\n{call}<|im_end|>\n" in prompt


def test_text_and_calls_are_separated_by_newlines() -> None:
    message = _called({})
    message |= {"content": "Let me see.", "tool_calls": message["tool_calls"] * 2}
    call = '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
    assert f"assistant\nLet me see.\n{call}\n{call}<|im_end|>" in render(
        [user("Weather?"), message, tool_result("rain")]
    )


def test_consecutive_tool_results_share_one_user_message() -> None:
    prompt = render([user("Weather?"), _called({}), tool_result("rain"), tool_result("sun")])
    shared = "<tool_response>\nrain\n</tool_response>\n<tool_response>\nsun\n</tool_response>"
    assert f"<|im_start|>user\n{shared}<|im_end|>\n" in prompt


def test_thinking_stays_only_after_the_last_user_message() -> None:
    thought = {"reasoning_content": "I look outside."}
    answered = [user("Weather?"), _called({}, **thought), tool_result("rain")]
    kept, dropped = render(answered), render([*answered, assistant("Rain."), user("Thanks")])
    assert "assistant\n<think>\nI look outside.\n</think>\n\n<tool_call>" in kept
    assert "I look outside." not in dropped


def test_thinking_inside_content_is_dropped_like_reasoning_content() -> None:
    inside = [user("Weather?"), assistant("<think>\nI look outside.\n</think>\n\nRain."), user("Thanks")]
    assert "assistant\nRain.<|im_end|>" in render(inside)


def test_text_parts_render_like_one_string() -> None:
    parts = [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there"}]
    assert render([{"role": "user", "content": parts}]) == render([user("Hello there")])


def test_image_part_is_an_error() -> None:
    with pytest.raises(ValueError, match="text only"):
        render([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])


def test_transformers_renders_the_same_prompt() -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    messages = [system("Be brief."), user("Weather?"), _called({"city": "Köln"}), tool_result("rain")]
    rendered = tokenizer.apply_chat_template(
        messages, tools=[WEATHER], add_generation_prompt=True, tokenize=False
    )
    assert rendered == render(messages, tools=[WEATHER])

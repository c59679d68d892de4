"""The chat template's contract: Qwen's ChatML, tools as JSON lines, thinking on unless it is switched off."""

import json
from typing import Any

import pytest

from mlxctl.demo import MODEL_DIR
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


def test_a_question_ends_where_the_assistant_begins() -> None:
    assert render([system("Be brief."), user("Hi")]) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_thinking_switched_off_is_an_empty_thought_after_the_header() -> None:
    prompt = render([user("Hi")], enable_thinking=False)
    assert prompt.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_tools_stand_one_per_line_below_the_system_prompt() -> None:
    prompt = render([system("Be brief."), user("Hi")], tools=[WEATHER, CLOCK])
    listed = prompt.split("<tools>\n")[1].split("</tools>")[0]
    assert prompt.startswith("<|im_start|>system\nBe brief.\n\n# Tools\n\n")
    assert [json.loads(line) for line in listed.splitlines()] == [WEATHER, CLOCK]


def test_tools_without_a_system_prompt_open_a_system_turn() -> None:
    assert render([user("Hi")], tools=[WEATHER]).startswith("<|im_start|>system\n# Tools\n\n")


@pytest.mark.parametrize("arguments", [{"city": "Köln"}, '{"city": "Köln"}'])
def test_arguments_render_alike_as_mapping_and_as_string(arguments: Any) -> None:
    prompt = render([user("Weather?"), _called(arguments), tool_result("rain")])
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Köln"}}\n</tool_call>'
    assert f"<|im_start|>assistant\n{call}<|im_end|>\n" in prompt


def test_text_before_a_call_and_several_calls_are_separated_by_newlines() -> None:
    message = _called({})
    message |= {"content": "Let me see.", "tool_calls": message["tool_calls"] * 2}
    call = '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
    assert f"assistant\nLet me see.\n{call}\n{call}<|im_end|>" in render(
        [user("Weather?"), message, tool_result("rain")]
    )


def test_consecutive_results_share_one_user_turn() -> None:
    prompt = render([user("Weather?"), _called({}), tool_result("rain"), tool_result("sun")])
    shared = "<tool_response>\nrain\n</tool_response>\n<tool_response>\nsun\n</tool_response>"
    assert f"<|im_start|>user\n{shared}<|im_end|>\n" in prompt


def test_thoughts_stay_only_after_the_last_question() -> None:
    thought = {"reasoning_content": "I look outside."}
    answered = [user("Weather?"), _called({}, **thought), tool_result("rain")]
    kept, dropped = render(answered), render([*answered, assistant("Rain."), user("Thanks")])
    assert "assistant\n<think>\nI look outside.\n</think>\n\n<tool_call>" in kept
    assert "I look outside." not in dropped


def test_thoughts_inside_the_text_are_treated_like_separate_ones() -> None:
    inside = [user("Weather?"), assistant("<think>\nI look outside.\n</think>\n\nRain."), user("Thanks")]
    assert "assistant\nRain.<|im_end|>" in render(inside)


def test_text_parts_render_like_one_string() -> None:
    parts = [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there"}]
    assert render([{"role": "user", "content": parts}]) == render([user("Hello there")])


def test_an_image_part_is_refused() -> None:
    with pytest.raises(ValueError, match="text only"):
        render([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])


def test_transformers_renders_the_same() -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    messages = [system("Be brief."), user("Weather?"), _called({"city": "Köln"}), tool_result("rain")]
    rendered = tokenizer.apply_chat_template(
        messages, tools=[WEATHER], add_generation_prompt=True, tokenize=False
    )
    assert rendered == render(messages, tools=[WEATHER])

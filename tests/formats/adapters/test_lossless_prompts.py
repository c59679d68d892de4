"""Conversations of any shape: texts are in the prompt or rejected."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlxctl.formats.adapters import ModelAdapter
from mlxctl.ir import (
    GenerationRequest,
    Message,
    TextPart,
    ThinkingOptions,
    ToolCallPart,
    ToolResultPart,
    collect,
    text_message,
)
from mlxctl.ir.errors import InvalidRequest

from .directories import adapter_of, write_model
from .families import CASES, adapter_for
from .requests import WEATHER, ask, prompt_of
from .tokenizers_in_code import byte_level

USER = text_message("user", "Hi")
CALL = Message(
    role="assistant", parts=(ToolCallPart(id="c1", name="get_weather", arguments='{"city": "Oslo"}'),)
)
RESULT = Message(role="tool", parts=(ToolResultPart(call_id="c1", content=(TextPart(text="Rain"),)),))
_TURNS = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
_LIST = "{% if tools %}List of tools: {{ tools | tojson }}{% endif %}"
_CALLS = "{% for c in m.tool_calls or [] %}<tool_call>\n{{ c.function | tojson }}\n</tool_call>{% endfor %}"
_SYSTEM_WITHOUT_TOOLS = (
    _LIST
    + "{% for m in messages if not (tools and m.role == 'system') %}<{{ m.role }}>{{ m.content }}{% endfor %}"
)
# What vendors' templates leave out, each in a template of its own.
SHAPES = {
    "lists of parts": (
        "{% for m in messages %}{{ m.role | capitalize }}:{% for line in m.content %}"
        "{% if line.type == 'text' %}{{ line.text }}{% endif %}{% endfor %}{% endfor %}"
    ),
    "lists of parts of users": (
        "{% for m in messages %}{% if m.role == 'user' %}{{ m.content[0].text }}{% else %}{{ m.content }}{% "
        "endif %}"
        "{% endfor %}"
    ),
    "system in the last user turn": (
        "{% set s = messages[0].content if messages[0].role == 'system' else '' %}"
        "{% for m in messages if m.role != 'system' %}<{{ m.role }}>"
        "{{ s if loop.last and m.role == 'user' }}{{ m.content }}{% endfor %}"
    ),
    "tools without past calls": _LIST + _TURNS,
    "a system message without tools": _SYSTEM_WITHOUT_TOOLS,
    "tools under another name": _TURNS + "{% if xml_tools %}{{ xml_tools | tojson }}{% endif %}",
    "a list of tools in any case": _TURNS + "{% for t in tools %}{{ t | tojson }}{% endfor %}",
    "past calls if tools are offered": (
        _LIST + "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if tools %}" + _CALLS + "{% endif %}"
        "{% endfor %}"
    ),
    "no call at the end": (
        _LIST + (
            "{% for m in messages %}<{{ m.role }}>{% if not (loop.last and m.tool_calls) %}{{ m.content }}"
        )
        + _CALLS
        + "{% endif %}{% endfor %}"
    ),
    "a user's question": (
        "{% if messages | selectattr('role', 'equalto', 'user') | list | length == 0 %}"
        "{{ raise_exception('No user query found') }}{% endif %}" + _TURNS
    ),
}  # fmt: skip


def _shape_adapter(source: str) -> Callable[[Path], ModelAdapter]:
    return lambda directory: adapter_of(write_model(directory, template=source))


ADAPTERS: dict[str, Callable[[Path], ModelAdapter]] = {
    **{case.name: lambda directory, case=case: adapter_for(case, directory) for case in CASES},
    **{name: _shape_adapter(source) for name, source in SHAPES.items()},
}


@pytest.fixture(params=ADAPTERS, scope="session")
def adapter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ModelAdapter:
    return ADAPTERS[request.param](tmp_path_factory.mktemp("shape"))


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[Message], list[str]]:
    """Draw messages in any order, and their texts.

    Also results without calls, and calls without results.
    """
    words: list[str] = []

    def word() -> str:
        words.append(f"unique{len(words):03d}")
        return words[-1]

    messages: list[Message] = []
    for kind in draw(
        st.lists(st.sampled_from(("system", "user", "assistant", "calls", "results")), min_size=1)
    ):
        if kind == "calls":
            texts = [TextPart(text=word())] if draw(st.booleans()) else []
            calls = [
                ToolCallPart(id=f"c{index}", name="get_weather", arguments=json.dumps({"city": word()}))
                for index in range(draw(st.integers(1, 3)))
            ]
            messages.append(Message(role="assistant", parts=(*texts, *calls)))
        elif kind == "results":
            ids = draw(st.lists(st.sampled_from(("c0", "c1", "c2")), min_size=1, max_size=3, unique=True))
            messages += [
                Message(role="tool", parts=(ToolResultPart(call_id=key, content=(TextPart(text=word()),)),))
                for key in ids
            ]
        else:
            messages.append(text_message(kind, word()))
    return messages, words


@given(drawn=conversations(), offers_tools=st.booleans())
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
def test_every_text_is_in_the_prompt(
    adapter: ModelAdapter, drawn: tuple[list[Message], list[str]], offers_tools: bool
) -> None:
    messages, words = drawn
    tools = (WEATHER,) if offers_tools and adapter.supports_tools else ()
    prompt = prompt_of(adapter, ask(*messages, tools=tools))
    assert [word for word in words if word not in prompt] == []


def test_system_message_keeps_its_place_in_conversations_without_tools(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, template=_SYSTEM_WITHOUT_TOOLS))
    messages = (text_message("system", "Be brief"), USER)
    assert prompt_of(adapter, ask(*messages)) == "<system>Be brief<user>Hi"
    assert prompt_of(adapter, ask(*messages, tools=(WEATHER,))).endswith("<user>Be brief\n\nHi")


def test_empty_answer_gets_a_placeholder_only_where_it_is_refused(tmp_path: Path) -> None:
    refusing = (
        "{% for m in messages if not m.content %}{{ raise_exception('No content') }}{% endfor %}" + _TURNS
    )
    messages = (USER, Message(role="assistant", parts=()), text_message("user", "Still there?"))
    prompts = [
        prompt_of(adapter_of(write_model(tmp_path / name, template=template)), ask(*messages))
        for name, template in (("taken", _TURNS), ("refused", refusing))
    ]
    assert prompts[0] == "<user>Hi<assistant><user>Still there?"
    assert prompts[1] == "<user>Hi<assistant>(nothing said)<user>Still there?"


def test_message_that_no_form_shows_is_named(tmp_path: Path) -> None:
    template = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"
    adapter = adapter_of(write_model(tmp_path, template=template))
    with pytest.raises(InvalidRequest, match="does not show the message 'Well hello'"):
        adapter.prepare_input(ask(USER, text_message("assistant", "Well hello!"), USER))


HISTORY: Sequence[Message] = (USER, CALL, RESULT)
CALL_TEXTS = {
    "lfm2": ("<|tool_call_start|>", "<|tool_call_start|>[get_weather(city='Oslo')]<|tool_call_end|>"),
    "granite": ("<|tool_call|>", '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]'),
    "qwen3": ("<tool_call>", (
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    )),
}  # fmt: skip


@pytest.mark.parametrize("model_type", CALL_TEXTS)
def test_past_calls_are_in_the_models_own_format(tmp_path: Path, model_type: str) -> None:
    marker, written = CALL_TEXTS[model_type]
    template = SHAPES["tools without past calls"]
    directory = write_model(
        tmp_path, template=template, tokenizer=byte_level((marker,)), config={"model_type": model_type}
    )
    adapter = adapter_of(directory)
    request = ask(*HISTORY, tools=(WEATHER,))
    assert f"<user>Hi<assistant>{written}<tool>Rain" in prompt_of(adapter, request)
    processor = adapter.create_stream_processor(request, adapter.prepare_input(request))
    answer = collect([*processor.feed(adapter.vocabulary.encode(written)), *processor.finish("stop")])
    assert [call.name for call in answer.tool_calls] == ["get_weather"]


@pytest.mark.parametrize(
    "template", [SHAPES["tools without past calls"], SHAPES["past calls if tools are offered"]]
)
def test_half_of_a_surrogate_pair_in_a_past_call_is_replaced(tmp_path: Path, template: str) -> None:
    call = ToolCallPart(id="c1", name="get_weather", arguments=r'{"city": "Os\ud83dlo"}')
    messages = (USER, Message(role="assistant", parts=(call,)), RESULT)
    prompt = prompt_of(adapter_of(write_model(tmp_path, template=template)), ask(*messages, tools=(WEATHER,)))
    assert "Os\ufffdlo" in prompt


def test_tool_template_is_used_with_tools_only(tmp_path: Path) -> None:
    named = [
        {"name": "default", "template": "plain " + _TURNS},
        {"name": "tool_use", "template": "tools " + SHAPES["past calls if tools are offered"]},
    ]
    adapter = adapter_of(write_model(tmp_path, template=None, tokenizer_config={"chat_template": named}))
    with_tools, without = (prompt_of(adapter, ask(USER, tools=tools)) for tools in ((WEATHER,), ()))
    assert with_tools.startswith("tools List of tools: ")
    assert without == "plain <user>Hi"
    assert "Oslo" in prompt_of(adapter, ask(*HISTORY))


EFFORTS = (
    "{% if reasoning_effort is defined and reasoning_effort not in ['no_think', 'low', 'high'] %}"
    "{{ raise_exception('wrong effort') }}{% endif %}{{ reasoning_effort }}" + _TURNS
)


@pytest.mark.parametrize(
    ("effort", "rendered"),
    [("none", "no_think"), ("minimal", "low"), ("medium", "high"), ("low", "low"), ("max", "high")],
)
def test_nearest_effort_of_the_template_is_used(tmp_path: Path, effort: str, rendered: str) -> None:
    adapter = adapter_of(write_model(tmp_path, template=EFFORTS))
    request: GenerationRequest = ask(USER, thinking=ThinkingOptions(effort=effort))
    assert prompt_of(adapter, request) == f"{rendered}<user>Hi"

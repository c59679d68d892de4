"""Models that call no tools by themselves still take forced calls."""

from pathlib import Path

import pytest

from mlxctl.formats.adapters import ModelAdapter, create_adapter
from mlxctl.ir import (
    Message,
    ModelCapabilities,
    TextPart,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
    collect,
    text_message,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.library import read_model

from .directories import PLAIN_TEMPLATE, QWEN_TEMPLATE, write_model
from .requests import WEATHER, ask, prepare, prompt_of

USER = text_message("user", "Hi")
CALL = ToolCallPart(id="call_1", name="get_weather", arguments='{"city": "Oslo"}')
AFTER_CALL = (
    USER,
    Message(role="assistant", parts=(CALL,)),
    Message(role="tool", parts=(ToolResultPart(call_id="call_1", content=(TextPart(text="4 degrees"),)),)),
)
ANSWER = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


@pytest.fixture(params=[QWEN_TEMPLATE, PLAIN_TEMPLATE], ids=["template with tools", "without"])
def adapter(request: pytest.FixtureRequest, tmp_path: Path) -> ModelAdapter:
    directory = write_model(tmp_path, template=request.param)
    return create_adapter(read_model(directory), name="small", capabilities=ModelCapabilities(tools=False))


def test_offering_tools_raises_and_names_the_remedy(adapter: ModelAdapter) -> None:
    assert not adapter.supports_tools
    with pytest.raises(InvalidRequest, match=r"tool_choice required.*capabilities\.toml") as refusal:
        prepare(adapter, ask(USER, tools=(WEATHER,)))
    assert refusal.value.param == "tools"
    prepare(adapter, ask(USER, tools=(WEATHER,), tool_choice=ToolChoice(mode="none")))


@pytest.mark.parametrize(
    "choice",
    [ToolChoice(mode="required"), ToolChoice(mode="named", name="get_weather")],
    ids=lambda choice: choice.mode,
)
def test_forced_call_works(adapter: ModelAdapter, choice: ToolChoice) -> None:
    request = ask(USER, tools=(WEATHER,), tool_choice=choice)
    prepared = prepare(adapter, request)
    assert prepared.guidance is not None
    assert adapter.verdict.summary().startswith("family qwen; tools in forced calls only")
    processor = adapter.create_stream_processor(request, prepared)
    rest = ANSWER.removeprefix(prepared.prompt_tail)
    events = processor.feed(adapter.vocabulary.encode(rest))
    assert [call.name for call in collect([*events, *processor.finish("stop")]).tool_calls] == ["get_weather"]


def test_conversation_with_calls_is_answered_without_tools(adapter: ModelAdapter) -> None:
    request = ask(*AFTER_CALL, tools=(WEATHER,))
    prompt = prompt_of(adapter, request)
    assert "4 degrees" in prompt
    assert "Oslo" in prompt
    assert WEATHER.description not in prompt
    processor = adapter.create_stream_processor(request, prepare(adapter, request))
    result = collect([*processor.feed(adapter.vocabulary.encode(ANSWER)), *processor.finish("stop")])
    assert (result.tool_calls, result.text) == ((), ANSWER)

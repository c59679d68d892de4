"""Every family: no text is lost, and tools can be called."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlxctl.formats.adapters import ModelAdapter
from mlxctl.formats.parsers import extract, tool_parser
from mlxctl.ir import (
    ImagePart,
    Message,
    TextPart,
    ThinkingOptions,
    ThinkingPart,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
    collect,
    text_message,
)
from mlxctl.ir.errors import InvalidRequest

from .families import CASES, FamilyCase, adapter_for
from .requests import TIME, WEATHER, ask, prompt_of

USER = text_message("user", "Hi")
NAMED = ToolChoice(mode="named", name="get_weather")
TAKES = (
    "system",
    "later_system",
    "repeated_roles",
    "tools",
    "calls",
    "parallel_calls",
    "text_beside_calls",
    "results",
)

Family = tuple[FamilyCase, ModelAdapter]


@pytest.fixture(scope="session")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, ModelAdapter]:
    return {case.name: adapter_for(case, tmp_path_factory.mktemp(case.name)) for case in CASES}


@pytest.fixture(params=CASES, ids=lambda case: case.name, scope="session")
def family(request: pytest.FixtureRequest, adapters: Mapping[str, ModelAdapter]) -> Family:
    return request.param, adapters[request.param.name]


@pytest.fixture(params=[case for case in CASES if case.forced], ids=lambda case: case.name, scope="session")
def calling(request: pytest.FixtureRequest, adapters: Mapping[str, ModelAdapter]) -> Family:
    return request.param, adapters[request.param.name]


@pytest.fixture(
    params=[case for case in CASES if case.with_thinking], ids=lambda case: case.name, scope="session"
)
def thinking(request: pytest.FixtureRequest, adapters: Mapping[str, ModelAdapter]) -> Family:
    return request.param, adapters[request.param.name]


def test_formats_are_detected_from_the_template(family: Family) -> None:
    case, adapter = family
    found = adapter.verdict
    assert (found.tool_parser_id, found.thinking_parser_id) == (case.tools, case.thinking)
    assert (found.tool_delivery, found.thinking_switch) == (case.delivery, case.switch)


def test_template_probe_detects_what_is_supported(family: Family) -> None:
    case, adapter = family
    assert {name for name in TAKES if not getattr(adapter.verdict, f"takes_{name}")} == case.converted


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "qwen3",
            (
                "family qwen; tools hermes_json, offered by the template; thinking think_tag, switched by "
                "enable_thinking"
            ),
        ),
        (
            "gemma3",
            (
                "family gemma; tools gemma, offered in the system prompt; no thinking; converted for its "
                "template: later system "
                "messages, repeated roles, tool calls, several calls at once, text beside calls, tool results"
            ),
        ),
    ],
)
def test_verdict_summary_is_one_line(adapters: Mapping[str, ModelAdapter], name: str, line: str) -> None:
    assert adapters[name].verdict.summary() == line


def test_prompt_contains_every_tool_definition(calling: Family) -> None:
    prompt = prompt_of(calling[1], ask(text_message("system", "Be brief."), USER, tools=(WEATHER, TIME)))
    assert all(
        prompt.count(text) for text in ("get_weather", "Tells the weather.", "city", "now", "Be brief.", "Hi")
    )


def test_forced_call_starts_in_the_familys_format(calling: Family) -> None:
    case, adapter = calling
    prepared = adapter.prepare_input(ask(USER, tools=(WEATHER, TIME), tool_choice=NAMED))
    assert prepared.prompt_tail == case.forced
    assert prompt_of(adapter, ask(USER, tools=(WEATHER, TIME), tool_choice=NAMED)).endswith(case.forced)


@pytest.mark.parametrize(
    "choice", [NAMED, ToolChoice(mode="required"), ToolChoice()], ids=lambda choice: choice.mode
)
def test_forced_call_is_parsed_from_its_first_token(calling: Family, choice: ToolChoice) -> None:
    case, adapter = calling
    request = ask(USER, tools=(WEATHER,), tool_choice=choice, thinking=ThinkingOptions(enabled=False))
    prepared = adapter.prepare_input(request)
    processor = adapter.create_stream_processor(request, prepared)
    text = (case.forced + case.rest).removeprefix(prepared.prompt_tail if choice.is_forced else "")
    events = processor.feed(adapter.vocabulary.encode(text)) + processor.finish("stop")
    answer = collect(events)
    assert [(call.name, json.loads(call.arguments)) for call in answer.tool_calls] == [
        ("get_weather", {"city": "Oslo"})
    ]
    assert (answer.text, answer.reason) == ("", "tool_calls")


def test_thinking_is_turned_off_and_on(thinking: Family) -> None:
    case, adapter = thinking
    off, on = (
        prompt_of(adapter, ask(USER, thinking=ThinkingOptions(enabled=enabled))) for enabled in (False, True)
    )
    assert off.endswith(case.without_thinking or "")
    assert on.endswith(case.with_thinking or "")
    assert on != off


def test_rejected_images_name_their_message(family: Family) -> None:
    image = Message(
        role="user", parts=(TextPart(text="What is it?"), ImagePart(data=b"", media_type="image/png"))
    )
    with pytest.raises(InvalidRequest, match="reads text only: it cannot take images") as refused:
        family[1].prepare_input(ask(USER, image))
    assert refused.value.param == "messages.1"


def test_past_call_is_parsed_as_it_was_made(calling: Family) -> None:
    case, adapter = calling
    markers = "\n".join(f"'{marker}' a {marker}\nb" for marker in sorted(tool_parser(case.tools).markers))
    value = f'{markers} </parameter>\n\nc </arg_value> d\n</function>\n</invoke>, {{"e": <f>&amp;</f>}}\\n'
    call = ToolCallPart(id="call_1", name="get_weather", arguments=json.dumps({"city": value}))
    result = ToolResultPart(call_id="call_1", content=(TextPart(text="It rains."),))
    conversation = USER, Message(role="assistant", parts=(call,)), Message(role="tool", parts=(result,))
    prompt = prompt_of(adapter, ask(*conversation, tools=(WEATHER,)))
    written = prompt.rpartition("Hi")[2].partition("It rains.")[0]
    (parsed, *_) = extract(written, tools=tool_parser(case.tools), tool_specs=(WEATHER,)).tool_calls
    assert json.loads(parsed.arguments) == {"city": value}


class ConversationGenerator:
    """Draws conversations of unique texts, and collects those to be rendered."""

    def __init__(self, data: st.DataObject, *, keeps_turn_thinking: bool, has_tools: bool) -> None:
        self._data = data
        self._keeps_turn_thinking = keeps_turn_thinking
        self._has_tools = has_tools
        self._num_texts = 0
        self.rendered_texts: list[str] = []
        self.messages: list[Message] = []

    def draw_conversation(self) -> tuple[Message, ...]:
        """Return a conversation that ends with a question or with results."""
        roles = st.sampled_from(("system", "user", "assistant", "assistant"))
        for role in self._data.draw(st.lists(roles, max_size=6)):
            self._turn(role)
        self._turn("user")
        for _ in range(self._data.draw(st.integers(0, 2 if self._has_tools else 0))):
            self._call(is_this_turn=True)
        return tuple(self.messages)

    def _turn(self, role: str) -> None:
        if role == "assistant" and self._has_tools and self._data.draw(st.booleans()):
            self._call(is_this_turn=False)
        else:
            self.messages.append(text_message(role, self._unique_text()))

    def _call(self, *, is_this_turn: bool) -> None:
        parts: list[ThinkingPart | TextPart | ToolCallPart] = []
        if self._data.draw(st.booleans()):
            is_rendered = is_this_turn and self._keeps_turn_thinking
            parts.append(ThinkingPart(text=self._unique_text() if is_rendered else "a forgotten thought"))
        if self._data.draw(st.booleans()):
            parts.append(TextPart(text=self._unique_text()))
        calls = [
            ToolCallPart(
                id=self._unique_text(is_rendered=False),
                name="get_weather",
                arguments=json.dumps({"city": self._unique_text()}),
            )
        ]
        calls += [
            ToolCallPart(
                id=self._unique_text(is_rendered=False),
                name="now",
                arguments=json.dumps({"zone": self._unique_text()}),
            )
            for _ in range(self._data.draw(st.integers(0, 2)))
        ]
        results = [
            ToolResultPart(call_id=call.id, content=(TextPart(text=self._unique_text()),)) for call in calls
        ]
        is_one_message = self._data.draw(st.booleans())
        self.messages.append(Message(role="assistant", parts=(*parts, *calls)))
        self.messages += (
            [Message(role="tool", parts=tuple(results))]
            if is_one_message
            else [Message(role="tool", parts=(result,)) for result in results]
        )

    def _unique_text(self, *, is_rendered: bool = True) -> str:
        self._num_texts += 1
        word = f"unique{self._num_texts:03d}"
        if is_rendered:
            self.rendered_texts.append(word)
        return word


@given(data=st.data())
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_of_a_conversation_is_lost(family: Family, data: st.DataObject) -> None:
    case, adapter = family
    generator = ConversationGenerator(
        data, keeps_turn_thinking=adapter.verdict.keeps_turn_thinking, has_tools=True
    )
    tools = (WEATHER, TIME) if case.forced else ()
    prompt = prompt_of(adapter, ask(*generator.draw_conversation(), tools=tools))
    assert [word for word in generator.rendered_texts if prompt.count(word) != 1] == []


def test_prompt_ends_with_the_start_of_the_answer(family: Family) -> None:
    _, adapter = family
    request = replace(ask(USER, text_message("assistant", "The start")), continues_answer=True)
    assert prompt_of(adapter, request).endswith("The start")

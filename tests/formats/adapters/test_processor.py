"""From ids to events: transcripts token by token, and token counts."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.formats.adapters import ModelAdapter, PreparedInput, StreamProcessor
from mlxctl.formats.adapters.processor import find_hidden_ids
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.formats.parsers import thinking_parser, tool_parser
from mlxctl.ir import (
    Finished,
    SamplingParams,
    StreamEvent,
    TextDelta,
    TextResult,
    ThinkingOptions,
    TokenScore,
    ToolChoice,
    Usage,
    collect,
    text_message,
)
from mlxctl.ir.cache_usage import CacheUsage
from mlxctl.protocols.openai.usage import completion_usage
from tests.formats.parsers.replay import Transcript, fold, load_transcripts

from .requests import TIME, WEATHER, ask
from .tokenizers_in_code import byte_level

TRANSCRIPTS = load_transcripts()
VOCABULARY = Vocabulary(byte_level())
END = VOCABULARY.id_of("<|im_end|>")
assert END is not None


def _processor(transcript: Transcript, **more: Any) -> StreamProcessor:
    tools, thinking = transcript.tool_parser, transcript.thinking_parser
    prepared = PreparedInput(
        token_ids=(1, 2, 3),
        sampling=SamplingParams(**more),
        stop_token_ids=frozenset({END}),
        max_tokens=1000,
        prompt_tail=transcript.prompt_tail,
    )
    request = ask(
        stop=transcript.stop, tools=transcript.tool_specs, parallel_tool_calls=transcript.max_calls is None
    )
    hidden_ids = find_hidden_ids(VOCABULARY, tools, thinking)
    return StreamProcessor(
        request, prepared, VOCABULARY, tools=tools, thinking=thinking, hidden_ids=hidden_ids
    )


def _spoken(text: str, *, tools: str = "null", thinking: str = "null", **more: Any) -> StreamProcessor:
    return _processor(Transcript(id="", text=text, expect=(), tools=tools, thinking=thinking, **more))


def _run(
    processor: StreamProcessor, groups: Sequence[Sequence[int]], *, is_cut_off: bool = False
) -> list[StreamEvent]:
    events = [event for group in groups for event in processor.feed(group)]
    return events + processor.finish("length" if is_cut_off else "stop")


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(TRANSCRIPTS), st.sets(st.integers(0, 150)))
def test_events_do_not_depend_on_token_grouping(transcript: Transcript, places: set[int]) -> None:
    ids = [*VOCABULARY.encode(transcript.text), END]
    edges = sorted({0, len(ids), *(place for place in places if place < len(ids))})
    groups = [ids[start:end] for start, end in pairwise(edges)]
    events = _run(_processor(transcript), groups, is_cut_off=transcript.is_cut_off)
    num_complete = sum(part[0] == "call" for part in transcript.expect)
    assert fold(events, num_complete_calls=num_complete) == list(transcript.expect)
    pieces = [[token_id] for token_id in ids]
    one_by_one = _run(_processor(transcript), pieces, is_cut_off=transcript.is_cut_off)
    assert events[-1] == one_by_one[-1]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(TRANSCRIPTS), st.integers(0, 200))
def test_answer_cut_off_anywhere_ends_with_finished(transcript: Transcript, num_tokens: int) -> None:
    processor = _processor(transcript)
    ids = VOCABULARY.encode(transcript.text)[:num_tokens]
    result = collect(
        [*processor.feed(ids), *processor.finish("length")] if ids else processor.finish("length")
    )
    assert processor.is_finished
    assert result.reason in ("length", "stop_sequence", "tool_calls")
    assert result.usage.num_completion_tokens <= len(ids)


@pytest.mark.parametrize(
    ("text", "tools", "reason", "expected"),
    [
        ("Hi", "null", "stop", "stop"),
        ("Hi", "null", "length", "length"),
        ('<tool_call>{"name": "f"}</tool_call>', "hermes_json", "stop", "tool_calls"),
        ('<tool_call>{"name": "f"}</tool_call> and', "hermes_json", "length", "length"),
        ('<tool_call>{"name": "f", "arguments": {"a', "hermes_json", "stop", "stop"),
        ('<tool_call>{"name": "f"}</tool_call>', "null", "stop", "stop"),
    ],
)
def test_finish_reason_matches_how_the_answer_ended(
    text: str, tools: str, reason: Any, expected: str
) -> None:
    processor = _spoken(text, tools=tools)
    events = [*processor.feed(VOCABULARY.encode(text)), *processor.finish(reason)]
    assert collect(events).reason == expected


def test_stop_token_is_counted_but_no_text() -> None:
    processor = _spoken("")
    ids = VOCABULARY.encode("Hello you")
    processor.cache_usage = CacheUsage(num_cached_tokens=2)
    result = collect(_run(processor, [[*ids, END]]))
    assert result.text == "Hello you"
    assert result.usage == Usage(num_prompt_tokens=3, num_cached_tokens=2, num_completion_tokens=len(ids) + 1)


def test_special_tokens_are_no_text() -> None:
    processor = _spoken("")
    assert collect(_run(processor, [VOCABULARY.encode("a<|im_start|>b<|endoftext|>")])).text == "ab"


def test_stop_string_finishes_inside_feed() -> None:
    processor = _spoken("", stop=("lazy",))
    ids = [VOCABULARY.id_of(char) for char in "alazyb"]
    events = [event for token_id in ids for event in processor.feed([token_id])]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.stop_sequence, finished.usage.num_completion_tokens) == (
        "stop_sequence",
        "lazy",
        5,
    )
    assert collect(events).text == "a"
    assert processor.is_finished
    assert processor.feed([ids[0]]) == processor.finish("stop") == []


def test_without_parallel_calls_the_first_call_ends_the_answer() -> None:
    text = 'So <tool_call>{"name": "f", "arguments": {}}</tool_call><tool_call>{"name": "g"}</tool_call>'
    processor = _spoken(text, tools="hermes_json", max_calls=1)
    events = processor.feed(VOCABULARY.encode(text))
    result = collect(events)
    assert [call.name for call in result.tool_calls] == ["f"]
    assert (result.reason, processor.is_finished) == ("tool_calls", True)


def _answer(text: str, *, places: Sequence[int] = (), **more: Any) -> TextResult:
    """Return an answer to a request with tools.

    Its text is cut into groups of tokens at `places`.
    """
    request = ask(tools=(WEATHER, TIME), **more.pop("request", {}))
    prepared = PreparedInput(
        token_ids=(1,), sampling=SamplingParams(), stop_token_ids=frozenset(), max_tokens=1000
    )
    tools = tool_parser("hermes_json")
    processor = StreamProcessor(
        request,
        prepared,
        VOCABULARY,
        tools=tools,
        thinking=thinking_parser("null"),
        hidden_ids=frozenset(),
        **more,
    )
    edges = sorted({0, len(text), *(place % len(text) for place in places)})
    groups = [VOCABULARY.encode(text[start:end]) for start, end in pairwise(edges)]
    return collect(_run(processor, groups))


def _call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


_PLACES = st.lists(st.integers(0, 500), max_size=12)


@settings(max_examples=60, deadline=None)
@given(_PLACES)
def test_call_of_another_tool_is_text_where_only_offered_ones_count(places: list[int]) -> None:
    text = f"I will. {_call('the_tool', '{}')} {_call('now', '{}')}"
    result = _answer(text, places=places, only_offered=True)
    assert [call.name for call in result.tool_calls] == ["now"]
    assert "the_tool" in result.text
    assert [call.name for call in _answer(text, places=places).tool_calls] == ["the_tool", "now"]


REQUIRED = {"tool_choice": ToolChoice(mode="required")}


@settings(max_examples=60, deadline=None)
@given(_PLACES)
def test_required_answer_ends_with_a_repeated_call(places: list[int]) -> None:
    calls = [_call("get_weather", f'{{"city": "{city}"}}') for city in ("Oslo", "Oslo 2", "Bonn", "Oslo")]
    calls.append(_call("now", "{}"))
    result = _answer("\n".join(calls), places=places, request=REQUIRED)
    assert [call.arguments for call in result.tool_calls] == [
        '{"city": "Oslo"}', '{"city": "Oslo 2"}', '{"city": "Bonn"}'
    ]  # fmt: skip
    assert result.reason == "tool_calls"
    assert len(_answer("\n".join(calls), places=places).tool_calls) == 5


def test_repeated_call_may_have_other_white_space_between_its_arguments() -> None:
    text = _call("now", '{"a": 1, "b": "x y"}') + _call("now", '{"a":1,"b":"xy"}')
    assert len(_answer(text, request=REQUIRED).tool_calls) == 2
    text = _call("now", '{"a": 1, "b": 2}') + _call("now", '{"a":1,  "b":2}') + _call("now", "{}")
    assert len(_answer(text, request=REQUIRED).tool_calls) == 1


def test_required_answer_has_a_largest_number_of_calls() -> None:
    text = "".join(_call("now", f'{{"n": {n}}}') for n in range(40))
    assert len(_answer(text, request=REQUIRED).tool_calls) == 16
    assert len(_answer(text).tool_calls) == 40


def test_thinking_tokens_are_those_fed_while_thinking() -> None:
    ids = VOCABULARY.encode("<think>\nthe quick\n</think>\n\nthe answer")
    closing = ids.index(VOCABULARY.id_of("</think>"))
    result = collect(_run(_spoken("", thinking="think_tag"), [ids]))
    assert result.usage.num_thinking_tokens == closing
    opened_by_template = collect(_run(_spoken("", thinking="think_tag", prompt_tail="<think>\n"), [ids[1:]]))
    assert opened_by_template.usage.num_thinking_tokens == closing
    assert opened_by_template.thinking == result.thinking == "the quick"


def test_character_split_over_tokens_is_emitted_whole() -> None:
    ids = VOCABULARY.encode("Zoë 👩‍👩‍👧 漢")
    assert len(ids) > 12
    events = _run(_spoken(""), [[token_id] for token_id in ids])
    assert all("\ufffd" not in event.text for event in events if isinstance(event, TextDelta))
    assert collect(events).text == "Zoë 👩‍👩‍👧 漢"


def test_incomplete_character_at_the_end_becomes_u_fffd() -> None:
    ids = VOCABULARY.encode("the 漢")[:-1]
    assert collect(_run(_spoken(""), [ids])).text == "the \ufffd"


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, VOCABULARY.size - 1), max_size=60), st.sampled_from([(), ("e",), ("the", " a")])
)
def test_any_token_sequence_is_processed(ids: list[int], stop: tuple[str, ...]) -> None:
    transcript = Transcript(id="", text="", expect=(), tools="hermes_json", thinking="think_tag", stop=stop)
    whole, single = _processor(transcript), _processor(transcript)
    together = _run(whole, [ids])
    one_by_one = _run(single, [[token_id] for token_id in ids])
    assert fold(together) == fold(one_by_one)
    assert together[-1] == one_by_one[-1]


class TestLogprobs:
    """Log-probabilities belong to the text in which their tokens begin."""

    @staticmethod
    def _scored(
        text: str, *, tools: str = "null", thinking: str = "null", stop: tuple[str, ...] = ()
    ) -> list[StreamEvent]:
        transcript = Transcript(id="", text=text, expect=(), tools=tools, thinking=thinking, stop=stop)
        processor = _processor(transcript, num_top_logprobs=1)
        events: list[StreamEvent] = []
        for position, token_id in enumerate([*VOCABULARY.encode(text), END]):
            score = TokenScore(
                token_id=token_id, logprob=-float(position), top=((token_id, -float(position)),)
            )
            events += processor.feed([token_id], [score])
        return events + processor.finish("stop")

    def test_every_token_of_the_answer_has_one(self) -> None:
        text = "the fox, 漢, the answer"
        result = collect(self._scored(text))
        assert [score.logprob for score in result.logprobs] == [
            -float(at) for at in range(len(VOCABULARY.encode(text)))
        ]
        assert b"".join(score.data for score in result.logprobs).decode() == text
        assert result.logprobs[0].top[0].token == result.logprobs[0].token

    def test_markers_thinking_and_calls_have_none(self) -> None:
        call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
        result = collect(
            self._scored(f"<think>the fox</think>dog{call}", tools="hermes_json", thinking="think_tag")
        )
        assert "".join(score.token for score in result.logprobs) == result.text == "dog"

    def test_a_delta_carries_the_tokens_that_begin_in_it(self) -> None:
        deltas = [
            event for event in self._scored("a <b the", tools="hermes_json") if isinstance(event, TextDelta)
        ]
        assert "".join(delta.text for delta in deltas) == "a <b the"
        assert all("".join(score.token for score in delta.logprobs) == delta.text for delta in deltas)

    def test_text_after_a_call_has_its_own_tokens(self) -> None:
        call = '<tool_call>{"name": "f", "arguments": {}}\n</tool_call>'
        result = collect(self._scored(f"the fox{call} the dog", tools="hermes_json"))
        assert "".join(score.token for score in result.logprobs) == result.text == "the fox the dog"
        junk = collect(self._scored(call.replace("</", "and</"), tools="hermes_json"))
        assert "".join(score.token for score in junk.logprobs) == junk.text == "\nand"

    def test_held_text_keeps_its_tokens(self) -> None:
        deltas = [
            event for event in self._scored("a foxy b", stop=(" foxes",)) if isinstance(event, TextDelta)
        ]
        assert all("".join(score.token for score in delta.logprobs) == delta.text for delta in deltas)
        assert "".join(delta.text for delta in deltas) == "a foxy b"

    def test_text_that_stops_before_a_stop_string_has_its_tokens_only(self) -> None:
        result = collect(self._scored("the fox jumps", stop=("jump",)))
        assert "".join(score.token for score in result.logprobs).strip() == result.text.strip() == "the fox"

    def test_none_without_being_asked(self) -> None:
        assert collect(_run(_spoken(""), [VOCABULARY.encode("the fox")])).logprobs == ()


class TestAdapterMakesProcessors:
    """The request decides how the answer is parsed."""

    @staticmethod
    def _answer(qwen: ModelAdapter, text: str, **options: Any) -> Any:
        request = ask(text_message("user", "Hi"), **options)
        prepared = qwen.prepare_input(request)
        processor = qwen.create_stream_processor(request, prepared)
        return collect([*processor.feed(qwen.vocabulary.encode(text)), *processor.finish("stop")])

    def test_calls_are_read_when_tools_were_offered(self, qwen: ModelAdapter) -> None:
        result = self._answer(
            qwen, '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call><|im_end|>', tools=(TIME,)
        )
        assert (result.tool_calls[0].name, result.reason) == ("now", "tool_calls")

    @pytest.mark.parametrize("options", [{}, {"tools": (TIME,), "tool_choice": ToolChoice(mode="none")}])
    def test_calls_are_text_when_none_were(self, qwen: ModelAdapter, options: dict[str, Any]) -> None:
        text = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
        result = self._answer(qwen, text + "<|im_end|>", **options)
        assert (result.text, result.reason) == (text, "stop")

    def test_forced_call_continues_where_the_prompt_ends(self, qwen: ModelAdapter) -> None:
        options = {"tools": (WEATHER,), "tool_choice": ToolChoice(mode="named", name="get_weather")}
        result = self._answer(qwen, ' {"city": "Paris"}}\n</tool_call><|im_end|>', **options)
        assert [(call.name, call.arguments) for call in result.tool_calls] == [
            ("get_weather", '{"city": "Paris"}')
        ]

    def test_thinking_is_read_whatever_was_asked(self, qwen: ModelAdapter) -> None:
        result = self._answer(qwen, "<think>hm</think>yes", thinking=ThinkingOptions(enabled=False))
        assert (result.thinking, result.text) == ("hm", "yes")


def test_special_tokens_that_are_markers_are_parsed() -> None:
    bracketed = replace(tool_parser("hermes_json"), opener="<|im_start|>", closer="<|endoftext|>")
    hidden = find_hidden_ids(VOCABULARY, bracketed, thinking_parser("null"))
    assert hidden == {END}


def test_usage_has_the_draft_tokens_of_speculative_decoding() -> None:
    processor = _spoken("a text")
    processor.num_accepted_draft_tokens, processor.num_rejected_draft_tokens = 5, 2
    ended = [event for event in _run(processor, [[1, 2, 3]]) if isinstance(event, Finished)]
    details = completion_usage([ended[0].usage, ended[0].usage], num_choices=1).completion_tokens_details
    assert (details.accepted_prediction_tokens, details.rejected_prediction_tokens) == (10, 4)
    without = completion_usage([Usage(num_prompt_tokens=1)], num_choices=1).completion_tokens_details
    assert msgspec.to_builtins(without) == {"reasoning_tokens": 0}

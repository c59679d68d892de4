"""Which parser reads the calls in raw answers: all of them are tried. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlxctl.ir import Message
from mlxctl.parsers import TOOL_PARSER_IDS, extract, thinking_parser, tool_parser
from mlxctl.probe.call_judgment import Judgement, is_credited, is_undecided, judge
from mlxctl.probe.interview import ProbeTranscript
from mlxctl.probe.questions import ToolQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswers:
    """What a model said to tool questions, and to the first of them when no tool was offered (`unasked`)."""

    asked: tuple[tuple[ToolQuestion, ProbeTranscript], ...]
    unasked: ProbeTranscript
    thinking_parser_id: str

    @property
    def transcripts(self) -> tuple[ProbeTranscript, ...]:
        """All of them."""
        return (*(transcript for _, transcript in self.asked), self.unasked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one parser read.

    `calls_unasked` says that there were calls when nothing was offered, `guesses` that they were right.

    `num_left_over` counts the characters beside thinking and calls.
    """

    parser_id: str
    judgements: tuple[Judgement, ...]
    calls_unasked: bool
    guesses: bool
    num_left_over: int

    @property
    def is_credited(self) -> bool:
        """Whether these are the answers of a model that calls tools."""
        return is_credited(self.judgements) and not self.guesses

    @property
    def is_undecided(self) -> bool:
        """Whether one more question would tell."""
        return is_undecided(self.judgements) and not self.guesses


def read_with_all(answers: ToolAnswers, *, own_parser_id: str) -> list[Reading]:
    """Read with every parser: the model's own first, then the others, those first that leave the least text
    over.
    """
    parser_ids = [parser_id for parser_id in TOOL_PARSER_IDS if parser_id != "null"]
    readings = [_read(answers, parser_id) for parser_id in parser_ids]
    return sorted(readings, key=lambda reading: (reading.parser_id != own_parser_id, reading.num_left_over))


def _read(answers: ToolAnswers, parser_id: str) -> Reading:
    messages = [_extract(transcript, question, answers, parser_id) for question, transcript in answers.asked]
    first, _ = answers.asked[0]
    unasked = _extract(answers.unasked, first, answers, parser_id)
    return Reading(
        parser_id=parser_id,
        judgements=tuple(
            judge(message, question) for message, (question, _) in zip(messages, answers.asked, strict=True)
        ),
        calls_unasked=bool(unasked.tool_calls),
        guesses=judge(unasked, first) == "called",
        num_left_over=sum(len(message.text) for message in messages),
    )


def _extract(
    transcript: ProbeTranscript, question: ToolQuestion, answers: ToolAnswers, parser_id: str
) -> Message:
    return extract(
        transcript.output,
        tools=tool_parser(parser_id),
        thinking=thinking_parser(answers.thinking_parser_id),
        tool_specs=(question.tool,),
        prompt_tail=transcript.prepared.prompt_tail,
    )


def first_credited(readings: Sequence[Reading]) -> Reading | None:
    """Return the best reading that shows a model which calls tools."""
    return next((reading for reading in readings if reading.is_credited), None)


def begins_call(output: str) -> bool:
    """Whether an answer has a marker with which a call of any format begins."""
    return any(opener in output for parser_id in TOOL_PARSER_IDS for opener in tool_parser(parser_id).openers)

"""Parsing of raw answers with every tool parser. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlxctl.formats.parsers import TOOL_PARSER_IDS, TemplateParsers, extract, tool_parser
from mlxctl.ir import Message
from mlxctl.probe.call_judgment import CallJudgment, can_call_tools, is_undecided, judge
from mlxctl.probe.interview import ProbeTranscript
from mlxctl.probe.questions import ToolQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswers:
    """Answers to tool questions, and to the first of them without tools.

    `described` are the parsers of the model's `response_template`.
    """

    with_tools: tuple[tuple[ToolQuestion, ProbeTranscript], ...]
    without_tools: ProbeTranscript
    thinking_parser_id: str
    described: TemplateParsers = field(default_factory=TemplateParsers)

    @property
    def transcripts(self) -> tuple[ProbeTranscript, ...]:
        """Transcripts of all answers, in order."""
        return (*(transcript for _, transcript in self.with_tools), self.without_tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserResult:
    """Judgments with one parser.

    `calls_without_tools`: it found calls when no tool was offered; `guesses_calls`: these were right.
    `num_left_over` counts characters outside of thinking and calls.
    """

    parser_id: str
    judgments: tuple[CallJudgment, ...]
    calls_without_tools: bool
    guesses_calls: bool
    num_left_over: int

    @property
    def can_call_tools(self) -> bool:
        """Whether the answers show tool calling."""
        return can_call_tools(self.judgments) and not self.guesses_calls

    @property
    def is_undecided(self) -> bool:
        """Whether another question would decide."""
        return is_undecided(self.judgments) and not self.guesses_calls


def read_with_all(answers: ToolAnswers, *, own_parser_id: str) -> list[ParserResult]:
    """Parse with every parser.

    The model's own is first, then by least text left over.
    """
    parser_ids = [parser_id for parser_id in answers.described.tool_ids if parser_id != "null"]
    results = [_read(answers, parser_id) for parser_id in parser_ids]
    return sorted(results, key=lambda parsed: (parsed.parser_id != own_parser_id, parsed.num_left_over))


def _read(answers: ToolAnswers, parser_id: str) -> ParserResult:
    messages = [
        _extract(transcript, question, answers, parser_id) for question, transcript in answers.with_tools
    ]
    first, _ = answers.with_tools[0]
    without_tools = _extract(answers.without_tools, first, answers, parser_id)
    return ParserResult(
        parser_id=parser_id,
        judgments=tuple(
            judge(message, question)
            for message, (question, _) in zip(messages, answers.with_tools, strict=True)
        ),
        calls_without_tools=bool(without_tools.tool_calls),
        guesses_calls=judge(without_tools, first) == "called",
        num_left_over=sum(len(message.text) for message in messages),
    )


def _extract(
    transcript: ProbeTranscript, question: ToolQuestion, answers: ToolAnswers, parser_id: str
) -> Message:
    return extract(
        transcript.output,
        tools=answers.described.tool_parser(parser_id),
        thinking=answers.described.thinking_parser(answers.thinking_parser_id),
        tool_specs=(question.tool,),
        prompt_tail=transcript.prepared.prompt_tail,
    )


def first_working(results: Sequence[ParserResult]) -> ParserResult | None:
    """Return the best result that shows tool calling."""
    return next((parsed for parsed in results if parsed.can_call_tools), None)


def begins_call(output: str) -> bool:
    """Whether an answer contains a call's opening marker in any format."""
    return any(opener in output for parser_id in TOOL_PARSER_IDS for opener in tool_parser(parser_id).openers)

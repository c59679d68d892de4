"""Test of tool calling: delivery of tools, and call format."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from mlxctl.formats.adapters import ModelAdapter, described_parsers
from mlxctl.formats.parsers import RESPONSE_TEMPLATE_ID
from mlxctl.ir import GenerationRequest, ModelCapabilities, ThinkingOptions, ToolDelivery, text_message
from mlxctl.probe.call_judgment import CallJudgment, judge
from mlxctl.probe.interview import GREEDY, Interview, ProbeTranscript, prepare, read
from mlxctl.probe.parser_sweep import ParserResult, ToolAnswers, begins_call, first_working, read_with_all
from mlxctl.probe.questions import TOOL_QUESTIONS, ToolQuestion

_MAX_TOKENS = 256
# A model that thinks although it is switched off needs more tokens before its call.
_MAX_THINKING_TOKENS = 2048
# The parser does not change a prompt whose tools the template writes, so any one serves for a model without.
_ANY_PARSER = "hermes_json"

# Formats that are requested in the system prompt if the usual one does not work: JSON in a tag, a JSON list,
# a bare JSON object, a tag for each argument. Small models follow some and not others.
_INJECTED_FORMATS = ("hermes_json", "tool_calls_json", "llama_python", "qwen3_coder")

ToolFailure = Literal["made_up", "unparsed", "cut_off", "broken", "no_call"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAttempt:
    """Result of one delivery of tools: working parser, or failure.

    `failure` is: calls that were not requested (`made_up`), complete calls that no parser reads (`unparsed`),
    no answer before the limit (`cut_off`), calls that are begun and not completed (`broken`), no calls
    (`no_call`). `described` is what the parser of the model's `response_template` reads.
    """

    delivery: ToolDelivery
    answers: ToolAnswers
    parsed: ParserResult | None = None
    described: ParserResult | None = None
    failure: ToolFailure = "no_call"

    @property
    def num_wrong(self) -> int:
        """Number of answers that are no right call."""
        num_right = 0 if self.parsed is None else self.parsed.judgments.count("called")
        return len(self.answers.with_tools) - num_right


class ToolCheck:
    """Offers tools in both ways until the model calls one.

    `known` are the capabilities found so far.
    """

    def __init__(self, interview: Interview, known: ModelCapabilities) -> None:
        self._interview = interview
        self._known = replace(known, tools=None, tool_parser_id=None, tool_delivery=None)
        self.own_parser_id = interview.adapter(self._known).verdict.tool_parser_id

    async def attempts(self) -> list[ToolAttempt]:
        """Try the template, then the system prompt.

        The last attempt worked, if any did.
        """
        attempts: list[ToolAttempt] = []
        for delivery in get_args(ToolDelivery):
            adapter = self._adapter_offering(delivery)
            if adapter is None:
                continue
            attempt = await self._attempt(delivery, adapter, own_parser_id=self.own_parser_id)
            if delivery == "injected":
                attempt = await self._best_injected(attempt, adapter.verdict.tool_parser_id)
            attempts.append(attempt)
            if attempts[-1].parsed is not None:
                break
        return attempts

    async def _best_injected(self, first: ToolAttempt, tried_id: str) -> ToolAttempt:
        """Request other formats in the system prompt; return the best attempt.

        None is requested where all answers are right already. A format gets all questions if the first answer
        is a call.
        """
        best = first
        for parser_id in _INJECTED_FORMATS:
            if not best.num_wrong:
                break
            if parser_id == tried_id or (best.parsed is not None and parser_id == best.parsed.parser_id):
                continue
            adapter = self._adapter_serving(parser_id, "injected")
            if not await self._calls_once(adapter):
                continue
            attempt = await self._attempt("injected", adapter, own_parser_id=parser_id)
            if attempt.parsed is not None and attempt.num_wrong < best.num_wrong:
                best = attempt
        return best

    async def _calls_once(self, adapter: ModelAdapter) -> bool:
        question = TOOL_QUESTIONS[0]
        answer = await self._ask(adapter, question)
        message = read(adapter, answer.request, answer.prepared, answer.token_ids).message
        return judge(message, question) == "called"

    def _adapter_offering(self, delivery: ToolDelivery) -> ModelAdapter | None:
        """Create the adapter that offers tools in this way.

        None if it cannot.
        """
        parser_id = _ANY_PARSER if self.own_parser_id == "null" else self.own_parser_id
        adapter = self._adapter_serving(parser_id, delivery)
        return adapter if adapter.verdict.tool_delivery == delivery else None

    def _adapter_serving(self, parser_id: str, delivery: ToolDelivery) -> ModelAdapter:
        """Create the adapter that would serve the model with these findings."""
        known = replace(self._known, tools=True, tool_parser_id=parser_id, tool_delivery=delivery)
        return self._interview.adapter(known)

    async def _attempt(
        self, delivery: ToolDelivery, adapter: ModelAdapter, *, own_parser_id: str
    ) -> ToolAttempt:
        first, second, third = TOOL_QUESTIONS
        answers = ToolAnswers(
            with_tools=((first, await self._ask(adapter, first)), (second, await self._ask(adapter, second))),
            without_tools=await self._ask(adapter, first, is_offered=False),
            thinking_parser_id=adapter.verdict.thinking_parser_id,
            described=described_parsers(self._interview.facts),
        )
        results = read_with_all(answers, own_parser_id=own_parser_id)
        # Another parser may skip a made-up call as text; that does not decide about the model's own format.
        is_own_undecided = results[0].parser_id == own_parser_id and results[0].is_undecided
        if is_own_undecided or (
            first_working(results) is None and any(parsed.is_undecided for parsed in results)
        ):
            answers = replace(
                answers, with_tools=(*answers.with_tools, (third, await self._ask(adapter, third)))
            )
            results = read_with_all(answers, own_parser_id=own_parser_id)
        for parsed in results:
            if parsed.can_call_tools and await self._is_confirmed(parsed, delivery, answers):
                described = next((each for each in results if each.parser_id == RESPONSE_TEMPLATE_ID), None)
                return ToolAttempt(delivery=delivery, answers=answers, parsed=parsed, described=described)
        return ToolAttempt(delivery=delivery, answers=answers, failure=_failure_of(results, answers))

    async def _ask(
        self, adapter: ModelAdapter, question: ToolQuestion, *, is_offered: bool = True
    ) -> ProbeTranscript:
        request = GenerationRequest(
            model=self._interview.model,
            messages=(text_message("user", question.text),),
            tools=(question.tool,) if is_offered else (),
            sampling=GREEDY,
            thinking=ThinkingOptions(enabled=False),
            max_tokens=_MAX_TOKENS,
        )
        transcript = await self._interview.ask(adapter, request)
        if transcript.is_all_thinking:
            return await self._interview.ask(adapter, replace(request, max_tokens=_MAX_THINKING_TOKENS))
        return transcript

    async def _is_confirmed(self, parsed: ParserResult, delivery: ToolDelivery, answers: ToolAnswers) -> bool:
        """Whether the serving adapter judges the same token ids equally."""
        adapter = self._adapter_serving(parsed.parser_id, delivery)
        return (
            tuple([await self._judge_again(adapter, *pair) for pair in answers.with_tools])
            == parsed.judgments
        )

    async def _judge_again(
        self, adapter: ModelAdapter, question: ToolQuestion, transcript: ProbeTranscript
    ) -> CallJudgment:
        # The format decides the wording of injected tools, so the prompt may have changed.
        if prepare(adapter, transcript.request).token_ids != transcript.prepared.token_ids:
            transcript = await self._ask(adapter, question)
        return judge(
            read(adapter, transcript.request, transcript.prepared, transcript.token_ids).message, question
        )


def _failure_of(results: list[ParserResult], answers: ToolAnswers) -> ToolFailure:
    if any(parsed.calls_without_tools or "made_up" in parsed.judgments for parsed in results):
        return "made_up"
    with_tools = answers.with_tools
    if any(
        question.tool.name in transcript.output and question.value in transcript.output
        for question, transcript in with_tools
    ):
        return "unparsed"
    if any(transcript.is_all_thinking for _, transcript in with_tools):
        return "cut_off"
    return "broken" if any(begins_call(transcript.output) for _, transcript in with_tools) else "no_call"

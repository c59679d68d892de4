"""Whether a model calls tools, how they have to be offered, and in which format it calls."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from mlxctl.adapters import ModelAdapter
from mlxctl.ir import GenerationRequest, ModelCapabilities, ThinkingOptions, ToolDelivery, text_message
from mlxctl.probe.call_judgment import Judgement, judge
from mlxctl.probe.interview import GREEDY, Interview, ProbeTranscript, read
from mlxctl.probe.parser_sweep import Reading, ToolAnswers, begins_call, first_credited, read_with_all
from mlxctl.probe.questions import TOOL_QUESTIONS, ToolQuestion

_MAX_TOKENS = 256
# A model that cannot help thinking aloud needs more room before it calls.
_MAX_THINKING_TOKENS = 2048
# Which parser reads does not change a prompt whose tools the template writes; any will do for a model without
# one.
_SOME_PARSER = "hermes_json"

Trouble = Literal["made_up", "unread", "unheard", "broken", "silent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What came of one way to offer tools.

    `reading` is the parser's that is credited; without one, `trouble` says why.

    The troubles: calls that were not asked for; whole calls that no parser reads; no answer before the limit;
    calls that are begun and come to nothing; no calls.
    """

    delivery: ToolDelivery
    answers: ToolAnswers
    reading: Reading | None = None
    trouble: Trouble = "silent"


class ToolCheck:
    """Offers tools in both ways until the model calls one. `known` is what was found about its thinking."""

    def __init__(self, interview: Interview, known: ModelCapabilities) -> None:
        self._interview = interview
        self._known = replace(known, tools=None, tool_parser_id=None, tool_delivery=None)
        self.own_parser_id = interview.adapter(self._known).verdict.tool_parser_id

    async def attempts(self) -> list[Attempt]:
        """Try the template's way and then the system prompt; the last attempt is the one that worked, if any
        did.
        """
        attempts: list[Attempt] = []
        for delivery in get_args(ToolDelivery):
            adapter = self._offering(delivery)
            if adapter is None:
                continue
            attempts.append(await self._attempt(delivery, adapter))
            if attempts[-1].reading is not None:
                break
        return attempts

    def _offering(self, delivery: ToolDelivery) -> ModelAdapter | None:
        """Make the adapter that offers tools in this way; None where that cannot be done."""
        parser_id = _SOME_PARSER if self.own_parser_id == "null" else self.own_parser_id
        adapter = self._serving(parser_id, delivery)
        return adapter if adapter.verdict.tool_delivery == delivery else None

    def _serving(self, parser_id: str, delivery: ToolDelivery) -> ModelAdapter:
        """Make the adapter that would serve the model if this were stored."""
        known = replace(self._known, tools=True, tool_parser_id=parser_id, tool_delivery=delivery)
        return self._interview.adapter(known)

    async def _attempt(self, delivery: ToolDelivery, adapter: ModelAdapter) -> Attempt:
        first, second, third = TOOL_QUESTIONS
        answers = ToolAnswers(
            asked=((first, await self._ask(adapter, first)), (second, await self._ask(adapter, second))),
            unasked=await self._ask(adapter, first, is_offered=False),
            thinking_parser_id=adapter.verdict.thinking_parser_id,
        )
        readings = read_with_all(answers, own_parser_id=self.own_parser_id)
        if first_credited(readings) is None and any(reading.is_undecided for reading in readings):
            answers = replace(answers, asked=(*answers.asked, (third, await self._ask(adapter, third))))
            readings = read_with_all(answers, own_parser_id=self.own_parser_id)
        for reading in readings:
            if reading.is_credited and await self._is_confirmed(reading, delivery, answers):
                return Attempt(delivery=delivery, answers=answers, reading=reading)
        return Attempt(delivery=delivery, answers=answers, trouble=_trouble(readings, answers))

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

    async def _is_confirmed(self, reading: Reading, delivery: ToolDelivery, answers: ToolAnswers) -> bool:
        """Whether the adapter that will serve the model reads the same, from the very tokens that it is asked
        with.
        """
        adapter = self._serving(reading.parser_id, delivery)
        return (
            tuple([await self._judge_again(adapter, *pair) for pair in answers.asked]) == reading.judgements
        )

    async def _judge_again(
        self, adapter: ModelAdapter, question: ToolQuestion, transcript: ProbeTranscript
    ) -> Judgement:
        # The format decides how an injected offer is worded, so the prompt may be another one now.
        if adapter.prepare_input(transcript.request).token_ids != transcript.prepared.token_ids:
            transcript = await self._ask(adapter, question)
        return judge(
            read(adapter, transcript.request, transcript.prepared, transcript.token_ids).message, question
        )


def _trouble(readings: list[Reading], answers: ToolAnswers) -> Trouble:
    if any(reading.calls_unasked or "made_up" in reading.judgements for reading in readings):
        return "made_up"
    asked = answers.asked
    if any(
        question.tool.name in transcript.output and question.value in transcript.output
        for question, transcript in asked
    ):
        return "unread"
    if any(transcript.is_all_thinking for _, transcript in asked):
        return "unheard"
    return "broken" if any(begins_call(transcript.output) for _, transcript in asked) else "silent"

"""Answers whose texts pass filters before they are sent. Event-loop thread only."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from mlxctl.formats.parsers.json_escapes import EscapeDecoder
from mlxctl.inference.answers import AnswerEvents, Answers
from mlxctl.inference.interface import OpenAnswer
from mlxctl.inference.screening import OutputRules
from mlxctl.inference.text_rules import TextFilter
from mlxctl.ir import (
    Collector,
    Finished,
    GeneratedTokens,
    StreamEvent,
    TextDelta,
    TextResult,
    ThinkingDelta,
    TokenLogprob,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
)


class JsonFilter:
    """Filters JSON text after its escapes are decoded, with `inner`.

    Escapes could hide a match.
    """

    def __init__(self, inner: TextFilter) -> None:
        self._inner = inner
        self._escapes = EscapeDecoder()

    @property
    def verdict(self) -> str | None:
        """The action taken, None without a match."""
        return self._inner.verdict

    @property
    def holds_back(self) -> bool:
        """Whether text is held back, which could become a match."""
        return self._inner.holds_back

    def feed(self, text: str) -> str:
        """Take the next piece, and return what may be sent."""
        return self._inner.feed(self._escapes.feed(text))

    def finish(self) -> str:
        """Return the text that was held back."""
        return self._inner.feed(self._escapes.finish()) + self._inner.finish()


class GuardedAnswers(Answers):
    """Answers of `inner`, each text of them filtered.

    A refused answer ends at once with the reason `refusal`.
    """

    def __init__(self, inner: Answers, rules: OutputRules) -> None:
        super().__init__(
            inner.generations, num_prompt_tokens=inner.num_prompt_tokens, sampling=inner.sampling
        )
        self._on_verdict = rules.on_verdict
        self._choices = [_GuardedChoice(generation, rules.text_filter) for generation in inner.generations]

    async def __anext__(self) -> AnswerEvents:
        while not self.is_over:
            number, events = await self._next()
            choice = self._choices[number]
            if choice.has_ended:
                continue
            filtered = choice.filter(events)
            self._num_open -= choice.has_ended
            if choice.verdict is not None:
                self._on_verdict(choice.verdict)
            if filtered or not events:
                return number, filtered
        raise StopAsyncIteration

    async def results(self) -> tuple[TextResult, ...]:
        """Wait for the end and return the filtered answers in order."""
        return tuple(await asyncio.gather(*map(self._result, self._choices)))

    async def _result(self, choice: "_GuardedChoice") -> TextResult:
        collector = Collector()
        async for events in choice.generation:
            for event in choice.filter(events):
                collector.add(event)
            if choice.has_ended:
                break
        if choice.verdict is not None:
            self._on_verdict(choice.verdict)
        return collector.result()


@dataclass(slots=True)
class _GuardedChoice:
    """One answer, with the filter of its open text."""

    generation: OpenAnswer
    create_filter: Callable[[], TextFilter]
    has_ended: bool = False
    verdict: str | None = None
    _filter: TextFilter | None = None
    _last: TextDelta | ThinkingDelta | ToolArgumentsDelta | None = None
    _open_call: int | None = None
    _logprobs: list[TokenLogprob] = field(default_factory=list)

    def filter(self, events: list[StreamEvent]) -> list[StreamEvent]:
        """Return the events that may be sent."""
        shown: list[StreamEvent] = []
        for event in events:
            match event:
                case TextDelta() | ThinkingDelta() | ToolArgumentsDelta():
                    self._take(event, shown)
                case GeneratedTokens():
                    # The ids would reveal what is redacted. The open text continues after them.
                    shown.append(replace(event, token_ids=()))
                case _:
                    self._close(shown)
                    if not self.has_ended:
                        self._pass(event, shown)
            if self.has_ended:
                break
        return shown

    def _pass(self, event: StreamEvent, shown: list[StreamEvent]) -> None:
        shown.append(event)
        match event:
            case ToolCallStarted():
                self._open_call = event.index
            case ToolCallEnded():
                self._open_call = None
            case Finished():
                self.has_ended = True

    def _take(self, event: TextDelta | ThinkingDelta | ToolArgumentsDelta, shown: list[StreamEvent]) -> None:
        if type(event) is not type(self._last):
            self._close(shown)
            if self.has_ended:
                return
        if self._filter is None:
            text_filter = self.create_filter()
            self._filter = JsonFilter(text_filter) if isinstance(event, ToolArgumentsDelta) else text_filter
        self._last = event
        text = event.json if isinstance(event, ToolArgumentsDelta) else event.text
        if isinstance(event, TextDelta):
            self._logprobs += event.logprobs
        self._show(self._filter, self._filter.feed(text), shown)

    def _close(self, shown: list[StreamEvent]) -> None:
        """End the open text."""
        text_filter, self._filter = self._filter, None
        if text_filter is not None:
            self._show(text_filter, text_filter.finish(), shown)
        self._last = None

    def _show(self, text_filter: TextFilter, text: str, shown: list[StreamEvent]) -> None:
        if text:
            shown.append(self._delta(text))
        self.verdict = text_filter.verdict or self.verdict
        if text_filter.verdict == "refused":
            self.has_ended = True
            if self._open_call is not None:
                shown.append(ToolCallEnded(index=self._open_call))
            self.generation.refuse()
            shown.append(Finished(reason="refusal", usage=self.generation.usage))

    def _delta(self, text: str) -> StreamEvent:
        match self._last:
            case ToolArgumentsDelta():
                return replace(self._last, json=text)
            case ThinkingDelta():
                return ThinkingDelta(text=text)
            case _:
                logprobs, self._logprobs = tuple(self._logprobs), []
                # Log-probabilities would tell what was redacted.
                return TextDelta(text=text, logprobs=() if self.verdict else logprobs)

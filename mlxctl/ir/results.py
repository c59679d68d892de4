"""Whole answers, folded from their events.

So streamed and whole answers are the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from mlxctl.ir.events import (
    Finished,
    FinishReason,
    GeneratedTokens,
    PromptProgress,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    TokenLogprob,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
)
from mlxctl.ir.messages import Message, TextPart, ThinkingPart, ToolCallPart


@dataclass(frozen=True, slots=True, kw_only=True)
class TextResult:
    """A finished answer: assistant message, finish reason and usage.

    `prefill_seconds` are those up to the first token, `decode_seconds` the rest; 0 if they are unknown. Only
    requests with `reports_tokens` have `token_ids` and `prompt_token_ids`.
    """

    message: Message
    reason: FinishReason
    usage: Usage
    stop_sequence: str | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    token_ids: tuple[int, ...] = ()
    prompt_token_ids: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The visible answer, without thinking and calls."""
        return self.message.text

    @property
    def thinking(self) -> str:
        """The thinking before and between."""
        return self.message.thinking

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls, in order."""
        return self.message.tool_calls


@dataclass(slots=True)
class Collector:
    """Folds events to a result: `add` each event, then `result()`.

    The stream has to be finished.
    """

    _parts: list[TextPart | ThinkingPart | ToolCallPart] = field(default_factory=list)
    _open_text: list[str] = field(default_factory=list)
    _open_kind: type[TextPart] | type[ThinkingPart] | None = None
    _calls: dict[int, tuple[ToolCallStarted, list[str]]] = field(default_factory=dict)
    _logprobs: list[TokenLogprob] = field(default_factory=list)
    _token_ids: list[int] = field(default_factory=list)
    _prompt_token_ids: tuple[int, ...] = ()
    _finished: Finished | None = None

    def add(self, event: StreamEvent) -> None:
        """Take the next event of the stream."""
        match event:
            case TextDelta():
                self._append(TextPart, event.text)
                self._logprobs.extend(event.logprobs)
            case ThinkingDelta():
                self._append(ThinkingPart, event.text)
            case ToolCallStarted():
                self._close_open()
                self._calls[event.index] = (event, [])
            case ToolArgumentsDelta():
                self._calls[event.index][1].append(event.json)
            case ToolCallEnded():
                started, fragments = self._calls.pop(event.index)
                self._parts.append(
                    ToolCallPart(id=started.id, name=started.name, arguments="".join(fragments))
                )
            case Finished():
                self._close_open()
                self._finished = event
            case GeneratedTokens():
                self._token_ids.extend(event.token_ids)
                self._prompt_token_ids = self._prompt_token_ids or event.prompt_token_ids
            case PromptProgress():
                pass
            case _:
                assert_never(event)

    def result(self) -> TextResult:
        """Return the whole answer."""
        assert self._finished is not None, "a stream ends with Finished"
        assert not self._calls, "a stream closes the calls that it opens"
        return TextResult(
            message=Message(role="assistant", parts=tuple(self._parts)),
            reason=self._finished.reason,
            usage=self._finished.usage,
            stop_sequence=self._finished.stop_sequence,
            logprobs=tuple(self._logprobs),
            token_ids=tuple(self._token_ids),
            prompt_token_ids=self._prompt_token_ids,
        )

    def _append(self, kind: type[TextPart] | type[ThinkingPart], text: str) -> None:
        if self._open_kind is not kind:
            self._close_open()
            self._open_kind = kind
        self._open_text.append(text)

    def _close_open(self) -> None:
        text = "".join(self._open_text)
        if self._open_kind is not None and text:
            self._parts.append(self._open_kind(text=text))
        self._open_kind = None
        self._open_text.clear()


def collect(events: Iterable[StreamEvent]) -> TextResult:
    """Fold a finished stream into its result."""
    collector = Collector()
    for event in events:
        collector.add(event)
    return collector.result()

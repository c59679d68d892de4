"""What happens during a chat turn, for its display. Pure."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from mlxctl.chat.answer_statistics import AnswerStatistics
from mlxctl.ir import StreamEvent, ToolCallPart, ToolResultPart


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundStarted:
    """A request is sent: the question, or tool results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingEnded:
    """The thinking is complete; `seconds` is None when its duration is unknown."""

    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMeasured:
    """An answer is complete; its tokens and times."""

    statistics: AnswerStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """A tool call begins to run, with the user's consent if needed."""

    call: ToolCallPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """A tool call has a result."""

    call: ToolCallPart
    result: ToolResultPart


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsExhausted:
    """The model called tools again after the last allowed round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBusy:
    """The server rejected the request for a temporary `reason`; it is retried."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCut:
    """The answer ended at its maximum length, not where the model stops.

    `num_tokens` is 0 when the server counts no tokens; `is_context_full`: the limit was the context window.
    """

    num_tokens: int
    is_thinking: bool
    is_context_full: bool

    @property
    def message(self) -> str:
        """One sentence about what was cut, and where."""
        cut = "The answer was cut" if not self.is_thinking else "The thinking was cut before the answer"
        place = f" at {self.num_tokens:,} tokens" if self.num_tokens else ""
        return f"{cut}{place}{': the context is full' if self.is_context_full else ', the limit'}."

    def hint(self, raise_limit: str) -> str:
        """Return the message and a remedy; `raise_limit` names the option or command."""
        if not self.is_context_full:
            return f"{self.message} {raise_limit} raises the limit."
        is_command = raise_limit.startswith("/")
        return f"{self.message} {'/compact makes room' if is_command else 'Start a new chat'}."


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesDropped:
    """The server left out the oldest messages of a long chat."""

    number: int

    @property
    def message(self) -> str:
        """One sentence about what was left out."""
        messages = "message was" if self.number == 1 else f"{self.number} messages were"
        return f"The oldest {messages} left out: the chat is longer than the context."


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoToolFailed:
    """The demo model's tool call failed, which ends the turn.

    The demo model cannot correct a call.
    """


Update = (
    StreamEvent
    | RoundStarted
    | ThinkingEnded
    | AnswerMeasured
    | AnswerCut
    | MessagesDropped
    | ToolStarted
    | ToolReturned
    | RoundsExhausted
    | DemoToolFailed
    | ServerBusy
)
Updates = AsyncGenerator[list[Update], None]

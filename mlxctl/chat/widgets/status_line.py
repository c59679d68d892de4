"""The status line: model, state and live numbers.

What does not fit is dropped from the right, least important first.
"""

import time
from dataclasses import dataclass, field

from textual.content import Content
from textual.widgets import Static

from mlxctl.chat.conversation import NEARLY_FULL, context_share
from mlxctl.chat.throughput_meter import LiveMetrics
from mlxctl.terminal_text import escape_line

_GAP = "  "
_SHORT_NAME = 16
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_PER_SECOND = 10
# Pause after which a stream counts as stalled.
_STALL_SECONDS = 3.0
_FULL = 0.95
_IDLE_STATES = frozenset({"ready", "no model", "waiting for you", "server not reachable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Values of the status line; `seconds` is the time in this state.

    The conversation had `num_context_tokens` of the model's `context_length` at the end of the last answer.
    """

    model: str
    state: str
    seconds: float = 0.0
    metrics: LiveMetrics = field(default_factory=LiveMetrics)
    num_context_tokens: int | None = None
    context_length: int | None = None
    has_tools: bool = False


class StatusLine(Static):
    """Line with the state and metrics of the model."""

    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 1; color: $text-muted; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__(id="status", markup=False)
        self._shown = ""
        self.set_state("loading")

    def set_state(self, state: str) -> None:
        """Keep what the chat does now, and since when."""
        self.state = state
        self._since = time.monotonic()

    @property
    def seconds_in_state(self) -> float:
        """How long the chat has been in its state."""
        return time.monotonic() - self._since

    def show(self, status: Status) -> None:
        """Show as much as fits; no redraw when unchanged."""
        content = status_content(status, width=max(self.size.width - 2, 1))
        if content.plain != self._shown:
            self._shown = content.plain
            self.update(content)


def status_text(status: Status, *, width: int) -> str:
    """Return the status line for `width` columns."""
    model = escape_line(status.model)
    segments = [
        model,
        _state(status),
        *_context(status),
        *_metrics(status.metrics),
    ]
    if status.has_tools:
        segments.append("tools")
    if len(_GAP.join(segments)) > width and len(model) > _SHORT_NAME:
        segments[0] = f"{model[: _SHORT_NAME - 1]}…"
    if status.state not in _IDLE_STATES:
        frame = _FRAMES[int(status.seconds * _FRAMES_PER_SECOND) % len(_FRAMES)]
        segments[0] = f"{frame} {segments[0]}"
    while len(segments) > 2 and len(_GAP.join(segments)) > width:
        segments.pop()
    return _GAP.join(segments)


def _state(status: Status) -> str:
    if status.state in _IDLE_STATES:
        return status.state
    prefill, silent = status.metrics.prefill, status.metrics.silent_seconds
    if prefill is not None and prefill.num_prompt_tokens:
        percent = 100 * prefill.num_processed // prefill.num_prompt_tokens
        return f"reading {percent}% of {prefill.num_prompt_tokens:,}"
    if status.state != "answering":
        return f"{status.state} {status.seconds:.0f} s"
    if silent is None:
        return status.state
    if status.metrics.first_token_seconds is None:
        return f"waiting {silent:.0f} s"
    return f"answering, no output for {silent:.0f} s" if silent > _STALL_SECONDS else status.state


def _metrics(metrics: LiveMetrics) -> list[str]:
    segments = []
    if metrics.tokens_per_second is not None:
        # A tilde marks an estimate from counted deltas.
        segments.append(f"{'' if metrics.is_exact else '~'}{metrics.tokens_per_second:.0f} tok/s")
    if metrics.first_token_seconds is not None:
        segments.append(f"first {metrics.first_token_seconds:.2f} s")
    if metrics.usage is not None:
        segments.append(f"cached {100 * metrics.usage.num_cached_tokens // metrics.usage.num_prompt_tokens}%")
    return segments


def _context(status: Status) -> list[str]:
    if status.num_context_tokens is None:
        return []
    whole = f"/{_format_tokens(status.context_length)}" if status.context_length else ""
    return [f"context {_format_tokens(status.num_context_tokens)}{whole}"]


def status_content(status: Status, *, width: int) -> Content:
    """Return the line; a context that is nearly full is colored."""
    text = status_text(status, width=width)
    content, share = Content(text), context_share(status.num_context_tokens, status.context_length)
    if share < NEARLY_FULL:
        return content
    start = text.rfind("context ")
    end = text.find(_GAP, start)
    style = "$text-error" if share >= _FULL else "$text-warning"
    return content.stylize(style, start, end if end >= 0 else None) if start >= 0 else content


def _format_tokens(num_tokens: int) -> str:
    return f"{num_tokens}" if num_tokens < 1000 else f"{num_tokens / 1000:.1f}k"

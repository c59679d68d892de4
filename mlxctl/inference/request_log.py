"""State, counts and times of open and recently ended requests, without content.

Event-loop thread only.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from mlxctl.errors import EngineError
from mlxctl.inference.request_totals import ModelTotals

RequestState = Literal["waiting", "reading", "answering", "finished", "stopped", "failed"]

MAX_ENDED = 200
"""Number of ended requests that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """Snapshot of one request. Times are in seconds, None before the event.

    `num_read_tokens` of the prompt are prefilled, `num_cached_tokens` of them came from the prefix cache.
    """

    number: int
    model: str
    state: RequestState
    num_prompt_tokens: int
    num_read_tokens: int
    num_cached_tokens: int
    num_generated_tokens: int
    started_at: float
    age_seconds: float
    first_token_seconds: float | None
    tokens_per_second: float | None


class RequestEntry:
    """One request in progress.

    PERF: called for every token, so it only counts.
    """

    __slots__ = (
        "_clock",
        "_log",
        "_started",
        "caller",
        "ended",
        "first",
        "model",
        "num_cached",
        "num_generated",
        "num_prefilled",
        "num_prompt",
        "number",
        "started_at",
        "state",
    )  # fmt: skip

    def __init__(
        self,
        log: "RequestLog",
        number: int,
        model: str,
        caller: str,
        num_prompt_tokens: int,
        clock: Callable[[], float],
    ) -> None:
        self.number, self.model, self.caller, self.num_prompt = number, model, caller, num_prompt_tokens
        self.state: RequestState = "waiting"
        self.num_prefilled = self.num_cached = self.num_generated = 0
        self.started_at = time.time()
        self.first: float | None = None
        self.ended: float | None = None
        self._log, self._clock, self._started = log, clock, clock()

    def prefilled(self, num_prefilled: int, num_cached: int) -> None:
        """Record the number of prefilled tokens and the cached ones among them."""
        self.state, self.num_prefilled, self.num_cached = "reading", num_prefilled, num_cached

    def generated(self, num_tokens: int) -> None:
        """Record so many new tokens."""
        if self.first is None:
            self.state, self.first, self.num_prefilled = "answering", self._clock(), self.num_prompt
        self.num_generated += num_tokens

    def end(self, state: Literal["finished", "stopped", "failed"]) -> None:
        """Record the end. Idempotent: the first end counts."""
        if self.ended is None:
            self.state, self.ended = state, self._clock()
            self._log.record_end(self)

    @contextmanager
    def until_done(self) -> Iterator[None]:
        """End the entry with the block.

        Finished, failed by the engine, or stopped by its caller.
        """
        try:
            yield
            self.end("finished")
        except EngineError:
            self.end("failed")
            raise
        finally:
            self.end("stopped")

    def view(self) -> RequestView:
        """Return its present state."""
        now = self._clock() if self.ended is None else self.ended
        spent = None if self.first is None else now - self.first
        return RequestView(
            number=self.number,
            model=self.model,
            state=self.state,
            num_prompt_tokens=self.num_prompt,
            num_read_tokens=self.num_prefilled,
            num_cached_tokens=self.num_cached,
            num_generated_tokens=self.num_generated,
            started_at=self.started_at,
            age_seconds=now - self._started,
            first_token_seconds=None if self.first is None else self.first - self._started,
            tokens_per_second=(self.num_generated - 1) / spent if spent and self.num_generated > 1 else None,
        )


class RequestLog:
    """Open requests, recently ended requests, and totals by model name."""

    def __init__(self, *, max_ended: int = MAX_ENDED, clock: Callable[[], float] = time.monotonic) -> None:
        self.totals: defaultdict[str, ModelTotals] = defaultdict(ModelTotals)
        self._clock = clock
        self._num_started = 0
        self._open: dict[int, RequestEntry] = {}
        self._ended: deque[RequestEntry] = deque(maxlen=max_ended)

    def begin(self, model: str, *, num_prompt_tokens: int, caller: str = "") -> RequestEntry:
        """Add an entry for a new request."""
        self._num_started += 1
        entry = RequestEntry(self, self._num_started, model, caller, num_prompt_tokens, self._clock)
        self._open[entry.number] = entry
        return entry

    def record_end(self, entry: RequestEntry) -> None:
        """Move an ended entry out of the open ones.

        Only entries call this.
        """
        del self._open[entry.number]
        self._ended.append(entry)
        self._count(entry.view())

    def views(self, caller: str | None = None) -> list[RequestView]:
        """Return open requests, then ended ones, newest first.

        Those of all callers, or of one.
        """
        entries = (*reversed(self._open.values()), *reversed(self._ended))
        return [entry.view() for entry in entries if caller in (None, entry.caller)]

    def _count(self, view: RequestView) -> None:
        totals = self.totals[view.model]
        totals.ends[view.state] += 1
        totals.num_prompt += view.num_read_tokens
        totals.num_cached += view.num_cached_tokens
        totals.num_generated += view.num_generated_tokens
        totals.whole.add(view.age_seconds)
        if view.first_token_seconds is not None:
            totals.first_token.add(view.first_token_seconds)
        if view.tokens_per_second:
            totals.next_token.add(1 / view.tokens_per_second)

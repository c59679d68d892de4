"""Figures of one generation, embedding or transcription while it runs.

Event-loop thread only.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

from mlxctl.engine import PrefillFigures, RowUpdate
from mlxctl.ir import Finished, StreamEvent
from mlxctl.ir.errors import EngineError, MlxctlError, RequestCancelled

MAX_EVENTS = 64
"""Number of prefill slices, and of interruptions, of one request that are recorded."""

# Tokens of one frame come at once: the time between them says nothing about the speed.
_MIN_RATED_SECONDS = 0.01

StopCause = Literal["stopped", "disconnected", "timed_out"]
RequestState = Literal[
    "waiting", "reading", "answering", "finished", "stopped", "disconnected", "timed_out", "failed"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """Snapshot of one request. Times are in seconds, None before the event.

    `num_read_tokens` of the prompt are prefilled, `num_cached_tokens` of them came from the prefix cache.
    `queue_seconds` is the time in the engine's queue, `prefill_seconds` the time from there to the end of
    prefill, `vision_seconds` the part of it for images. `hit` is the kind of prefix cache hit. `agent` is the
    request's `session_id`, or the name that the server derived from the conversation's opening. `route` is
    `local`, or `remote:NAME` of the remote that answers.
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
    request_id: str = ""
    caller: str = ""
    protocol: str | None = None
    session_id: str | None = None
    agent: str | None = None
    adapter: str | None = None
    route: str = "local"
    finish_reason: str | None = None
    hit: str | None = None
    queue_seconds: float | None = None
    prefill_seconds: float | None = None
    prefill_tokens_per_second: float | None = None
    vision_seconds: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether the request has not ended."""
        return self.state in ("waiting", "reading", "answering")


class RequestContent(Protocol):
    """Prompt and answer of one request, where they are recorded."""

    def prompt(self) -> bytes:
        """Return the prompt as the model, or the remote, read it."""

    def answer(self) -> bytes:
        """Return the answer so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenContent:
    """Prompt and answer as token ids; implements `RequestContent`.

    `answer_ids` grows while the answer is generated. `bytes_of` returns a token's bytes.
    """

    prompt_ids: Sequence[int]
    answer_ids: Sequence[int]
    bytes_of: Callable[[int], bytes]

    def prompt(self) -> bytes:
        """Return the prompt as the model read it."""
        return b"".join(map(self.bytes_of, self.prompt_ids))

    def answer(self) -> bytes:
        """Return the answer as the model wrote it, special tokens included."""
        return b"".join(map(self.bytes_of, self.answer_ids))


class RequestEntry:
    """One request in progress.

    PERF: called for every token, so it only counts. `stop_cause` is the state of a request that its caller
    ends. `content` is set only where it is recorded, and so are `slices`, unix times with the number of
    prefilled tokens, and `interruptions`, unix times with the reason, None where the answer continues.
    """

    __slots__ = (
        "_clock",
        "_on_end",
        "_started",
        "adapter",
        "agent",
        "caller",
        "content",
        "ended",
        "finish_reason",
        "first",
        "hit",
        "interruptions",
        "model",
        "num_cached",
        "num_generated",
        "num_images",
        "num_prefilled",
        "num_prompt",
        "num_thinking",
        "number",
        "on_cancel",
        "prefill",
        "protocol",
        "request_id",
        "route",
        "session_id",
        "slices",
        "started_at",
        "state",
        "stop_cause",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        model: str,
        *,
        num_prompt_tokens: int,
        caller: str = "",
        on_end: Callable[["RequestEntry"], None],
        clock: Callable[[], float],
    ) -> None:
        self.number, self.model, self.caller, self.num_prompt = number, model, caller, num_prompt_tokens
        self.state: RequestState = "waiting"
        self.stop_cause: StopCause = "stopped"
        self.on_cancel: Callable[[RequestCancelled], None] | None = None
        self.request_id = ""
        self.protocol: str | None = None
        self.session_id: str | None = None
        self.agent: str | None = None
        self.adapter: str | None = None
        self.route = "local"
        self.finish_reason: str | None = None
        self.hit: str | None = None
        self.prefill: PrefillFigures | None = None
        self.content: RequestContent | None = None
        self.slices: list[tuple[float, int]] | None = None
        self.interruptions: list[tuple[float, str | None]] | None = None
        self.num_prefilled = self.num_cached = self.num_generated = self.num_thinking = self.num_images = 0
        self.started_at = time.time()
        self.first: float | None = None
        self.ended: float | None = None
        self._on_end, self._clock, self._started = on_end, clock, clock()

    def add(self, updates: Iterable[RowUpdate]) -> None:
        """Record updates of the engine."""
        num_tokens = 0
        for update in updates:
            num_tokens += len(update.token_ids)
            if update.num_processed is not None:
                usage = update.cache_usage
                self.prefilled(update.num_processed, usage.num_cached_tokens, hit=usage.hit)
                self.prefill = update.prefill or self.prefill
            if update.interruption is not None or update.has_resumed:
                self.interrupted(update.interruption)
        if num_tokens:
            self.generated(num_tokens)

    def prefilled(self, num_prefilled: int, num_cached: int, *, hit: str | None = None) -> None:
        """Record the number of prefilled tokens and the cached ones among them."""
        self.state, self.num_prefilled, self.num_cached, self.hit = "reading", num_prefilled, num_cached, hit
        if self.slices is not None and len(self.slices) < MAX_EVENTS:
            self.slices.append((time.time(), num_prefilled))

    def interrupted(self, reason: str | None) -> None:
        """Record that the scheduler interrupted the answer, and why.

        A `reason` of None records that it continues.
        """
        if self.interruptions is not None and len(self.interruptions) < MAX_EVENTS:
            self.interruptions.append((time.time(), reason))

    def generated(self, num_tokens: int) -> None:
        """Add generated tokens."""
        if self.first is None:
            self.state, self.first, self.num_prefilled = "answering", self._clock(), self.num_prompt
        self.num_generated += num_tokens

    def finish(self, events: Iterable[StreamEvent]) -> None:
        """Record the end of an answer, of which `events` are the last."""
        for event in events:
            if isinstance(event, Finished):
                self.finish_reason = event.reason
                self.num_thinking = event.usage.num_thinking_tokens
        self.end("finished")

    def refuse(self) -> None:
        """Record that a guardrail ended the answer."""
        self.finish_reason = "refusal"
        self.end("finished")

    def fail(self, error: MlxctlError) -> None:
        """Record that the engine cannot finish the answer."""
        self.end("stopped" if isinstance(error, RequestCancelled) else "failed")

    def end(self, state: Literal["finished", "stopped", "failed"]) -> None:
        """Record the end. Idempotent: the first end counts."""
        if self.ended is None:
            self.state = self.stop_cause if state == "stopped" else state
            self.ended = self._clock()
            self._on_end(self)

    @contextmanager
    def until_done(self) -> Iterator[None]:
        """End the entry with the block.

        Finished, failed by the engine, or stopped by its caller. `cancel` cancels the task of the block,
        which then raises RequestCancelled.
        """
        cancelled: list[RequestCancelled] = []
        task = asyncio.current_task()
        assert task is not None, "requests run in tasks"

        def cancel(error: RequestCancelled) -> None:
            cancelled.append(error)
            task.cancel()

        self.on_cancel = cancel
        try:
            yield
            self.end("finished")
        except asyncio.CancelledError:
            if not cancelled:
                raise
            self.end("stopped")
            task.uncancel()
            raise cancelled[0] from None
        except EngineError:
            self.end("failed")
            raise
        finally:
            self.end("stopped")

    @property
    def seconds(self) -> tuple[float, float]:
        """Seconds to the first token, and from there to the end.

        An open request ends now.
        """
        end = self._clock() if self.ended is None else self.ended
        first = end if self.first is None else self.first
        return first - self._started, end - first

    def cancel(self, error: RequestCancelled | None = None) -> None:
        """Let the request fail with `error`, or RequestCancelled.

        Idempotent; ended requests stay as they are.
        """
        if self.on_cancel is not None and self.ended is None:
            on_cancel, self.on_cancel = self.on_cancel, None
            on_cancel(error or RequestCancelled(f"request {self.number} was cancelled"))

    def view(self) -> RequestView:
        """Return its present state."""
        now = self._clock() if self.ended is None else self.ended
        spent = None if self.first is None else now - self.first
        prefill = self.prefill
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
            tokens_per_second=(self.num_generated - 1) / spent
            if spent is not None and spent >= _MIN_RATED_SECONDS and self.num_generated > 1
            else None,
            request_id=self.request_id,
            caller=self.caller,
            protocol=self.protocol,
            session_id=self.session_id,
            agent=self.agent,
            adapter=self.adapter,
            route=self.route,
            finish_reason=self.finish_reason,
            hit=self.hit,
            queue_seconds=prefill.queue_seconds if prefill else None,
            prefill_seconds=prefill.prefill_seconds if prefill else None,
            prefill_tokens_per_second=(self.num_prompt - self.num_cached) / prefill.prefill_seconds
            if prefill and prefill.prefill_seconds
            else None,
            vision_seconds=prefill.vision_seconds if prefill else None,
        )

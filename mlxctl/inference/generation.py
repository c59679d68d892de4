"""One answer in flight: converts the engine's tokens to events.

Event-loop thread only.
"""

from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import replace
from typing import Literal

from mlxctl.engine import RowUpdate, Score, TokenStream
from mlxctl.formats.adapters import StreamProcessor
from mlxctl.inference.cache.recent_prompts import RecordedPrompt
from mlxctl.inference.prompt_echo import PromptEcho
from mlxctl.inference.request_entry import RequestEntry
from mlxctl.ir import (
    Collector,
    GeneratedTokens,
    PromptProgress,
    StreamEvent,
    TextResult,
    TokenScore,
    Usage,
)
from mlxctl.ir.errors import MlxctlError


class Generation:
    """Async iterator over lists of events; implements `AnswerStream`.

    All events that are ready come in one list; an empty list follows a `nudge`. The last event of the last
    list is Finished. Raises EngineError if the engine cannot finish the answer. Waiting for the next list may
    be cancelled and resumed. The holder must `cancel` it at the end, however the answer ended.

    The `entry` gets the answer's figures, the `prompt` its cache usage and, at the end, its tokens, which
    `on_complete` gets then, too. An `echo` comes before generated text. With `reported_prompt` the tokens are
    reported; the first report has the prompt's.
    """

    def __init__(
        self,
        tokens: TokenStream,
        processor: StreamProcessor,
        entry: RequestEntry,
        prompt: RecordedPrompt,
        *,
        answer_ids: list[int],
        on_complete: Callable[[Sequence[int]], None],
        echo: PromptEcho | None = None,
        reported_prompt: Sequence[int] | None = None,
    ) -> None:
        """`answer_ids` is empty at first and gets the answer's tokens."""
        self._tokens = tokens
        self._processor = processor
        self._entry = entry
        self._prompt = prompt
        self._answer_ids = answer_ids
        self._on_complete = on_complete
        self._echo = echo
        self._is_over = False
        self._reports_tokens = reported_prompt is not None
        self._unreported_prompt = tuple(reported_prompt or ())
        entry.on_cancel = tokens.abort

    def __aiter__(self) -> "Generation":
        return self

    async def __anext__(self) -> list[StreamEvent]:
        if self._echo is not None and (echo := self._echo.take()):
            return [*echo]
        while not self._is_over:
            updates = await self._next_updates()
            if not updates:
                if self._tokens.is_closed:
                    break
                return []
            if events := self._events(updates):
                return events
        raise StopAsyncIteration

    async def _next_updates(self) -> list[RowUpdate]:
        try:
            return await self._tokens.next()
        except MlxctlError as error:
            self._entry.fail(error)
            raise

    @property
    def prompt_usage(self) -> Usage:
        """Token counts of the prompt.

        Cached tokens are known from the first events on.
        """
        return self._processor.prompt_usage

    @property
    def usage(self) -> Usage:
        """Token counts so far."""
        return self._processor.usage

    def refuse(self) -> None:
        """Stop the sequence: a guardrail ends the answer."""
        if not self._is_over:
            self._is_over = True
            self._tokens.cancel()
            self._entry.refuse()

    async def result(self) -> TextResult:
        """Wait for the end and return the whole answer."""
        return await collect(self, self._entry)

    def nudge(self) -> None:
        """Wake the waiting iteration.

        It gets an empty list if there is no event.
        """
        self._tokens.nudge()

    def cancel(self) -> None:
        """Stop the sequence if it still runs. Idempotent."""
        self._tokens.cancel()
        self._entry.end("stopped")

    def _events(self, updates: list[RowUpdate]) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        last = updates[-1]
        token_ids = [token_id for update in updates for token_id in update.token_ids]
        self._entry.add(updates)
        self._answer_ids += token_ids
        for update in updates:
            self._processor.num_accepted_draft_tokens += update.num_accepted_draft_tokens
            self._processor.num_rejected_draft_tokens += update.num_rejected_draft_tokens
            if update.num_processed is not None:
                self._processor.cache_usage = self._prompt.cache_usage = update.cache_usage
        if self._echo is not None:
            self._echo.add(updates)
            events += self._echo.take()
        if not token_ids and last.num_processed is not None:
            events += self._progress(last.num_processed, last.cache_usage.num_cached_tokens)
        if token_ids:
            num_before = self._processor.num_completion_tokens
            deltas = self._processor.feed(token_ids, [_token_score(*pair) for pair in _scored(updates)])
            num_read = self._processor.num_completion_tokens - num_before
            events += [*self._report(token_ids[:num_read]), *deltas]
        elif last.finish_reason is not None:
            events += self._report([])
        if self._processor.is_finished:
            # A stop string ended it; the engine matches only tokens.
            self._end(events)
        elif last.finish_reason is not None:
            if not self._prompt.is_off:
                self._prompt.answer_ids = self._answer_ids
            self._on_complete(self._answer_ids)
            reason: Literal["stop", "length"] = "length" if last.finish_reason == "length" else "stop"
            events += self._processor.finish(reason)
            self._end(events)
        return events

    def _report(self, token_ids: Sequence[int]) -> list[StreamEvent]:
        if not self._reports_tokens:
            return []
        prompt, self._unreported_prompt = self._unreported_prompt, ()
        return [
            GeneratedTokens(token_ids=tuple(token_ids), usage=self._processor.usage, prompt_token_ids=prompt)
        ]

    def _progress(self, num_processed: int, num_cached: int) -> list[StreamEvent]:
        # The last chunk is not reported: the first token follows it at once.
        num_prompt_tokens = self._entry.num_prompt
        if num_processed >= num_prompt_tokens - 1:
            return []
        return [
            PromptProgress(
                num_processed=num_processed, num_cached=num_cached, num_prompt_tokens=num_prompt_tokens
            )
        ]

    def _end(self, events: list[StreamEvent]) -> None:
        self._is_over = True
        self._tokens.cancel()
        self._entry.finish(events)


def _scored(updates: list[RowUpdate]) -> list[tuple[int, Score]]:
    return [
        pair
        for update in updates
        if update.scores
        for pair in zip(update.token_ids, update.scores, strict=True)
    ]


def _token_score(token_id: int, score: Score) -> TokenScore:
    return TokenScore(token_id=token_id, logprob=score.logprob, top=tuple(score.top))


async def collect(answer: AsyncIterable[list[StreamEvent]], entry: RequestEntry) -> TextResult:
    """Wait for the end of an answer and return it whole."""
    collector = Collector()
    async for events in answer:
        for event in events:
            collector.add(event)
    prefill_seconds, decode_seconds = entry.seconds
    return replace(collector.result(), prefill_seconds=prefill_seconds, decode_seconds=decode_seconds)

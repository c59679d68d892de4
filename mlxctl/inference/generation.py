"""One request in flight: tokens from the engine go in, events come out.

Event-loop thread only; knows no protocol and no HTTP.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from mlxctl.adapters import StreamProcessor
from mlxctl.engine import RowUpdate, Score, TokenStream
from mlxctl.errors import MlxctlError
from mlxctl.inference.cache.recent_prompts import SeenRequest
from mlxctl.inference.prompt_echo import Echo
from mlxctl.inference.request_log import RequestEntry
from mlxctl.ir import Collector, PromptProgress, StreamEvent, TextResult, TokenScore, Usage


class Generation:
    """An async iterator over lists of events; everything that is ready comes in one list, and an empty one
    answers a `nudge`.

    The last event of the last list is Finished. Raises EngineError if the engine cannot finish it. Waiting
    for the next list may be cancelled and taken up again. Whoever holds it must `cancel` it when done with
    it, however that came about. `echo` comes before what is generated. `on_complete` gets all generated ids
    once the engine has ended them. `on_end` is called at the end, however it came about; it may be called
    twice.
    """

    def __init__(
        self,
        tokens: TokenStream,
        processor: StreamProcessor,
        entry: RequestEntry,
        seen: SeenRequest,
        *,
        num_prompt_tokens: int,
        on_complete: Callable[[Sequence[int]], None],
        on_end: Callable[[], None],
        echo: Echo,
    ) -> None:
        self.num_prompt_tokens = num_prompt_tokens
        self._entry = entry
        self._seen = seen
        self._on_complete = on_complete
        self._on_end = on_end
        self._generated_ids: list[int] = []
        self._echo = echo
        self._tokens = tokens
        self._processor = processor
        self._is_over = False

    def __aiter__(self) -> "Generation":
        return self

    async def __anext__(self) -> list[StreamEvent]:
        if echo := self._echo.take():
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
        except MlxctlError:
            self._entry.end("failed")
            raise

    @property
    def prompt_usage(self) -> Usage:
        """Counts of the prompt; what the cache had of it is known from the first events on."""
        return self._processor.prompt_usage

    async def result(self) -> TextResult:
        """Wait for the end and return the whole answer."""
        collector = Collector()
        async for events in self:
            for event in events:
                collector.add(event)
        return collector.result()

    def nudge(self) -> None:
        """Have the one who waits for the next list look around: it gets an empty list if nothing has come."""
        self._tokens.nudge()

    def cancel(self) -> None:
        """Free the sequence, if it still runs. Idempotent."""
        self._entry.end("stopped")
        self._tokens.cancel()
        self._on_end()

    def _events(self, updates: list[RowUpdate]) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        last = updates[-1]
        token_ids = [token_id for update in updates for token_id in update.token_ids]
        for update in updates:
            if update.num_processed is not None:
                self._processor.num_cached_tokens = update.num_cached
                self._processor.num_stored_tokens = update.num_new
                self._entry.read(update.num_processed, update.num_cached)
                self._seen.found(update)
        self._echo.add(updates)
        events += self._echo.take()
        if not token_ids and last.num_processed is not None:
            events += self._progress(last.num_processed, last.num_cached)
        self._generated_ids += token_ids
        if token_ids:
            self._entry.generated(len(token_ids))
            events += self._processor.feed(token_ids, [_token_score(*pair) for pair in _scored(updates)])
        if self._processor.is_finished:
            # A stop string ended it; the engine knows only tokens.
            self._end()
        elif last.finish_reason is not None:
            self._seen.answer_ids = self._generated_ids
            self._on_complete(self._generated_ids)
            reason: Literal["stop", "length"] = "length" if last.finish_reason == "length" else "stop"
            events += self._processor.finish(reason)
            self._end()
        return events

    def _progress(self, num_processed: int, num_cached: int) -> list[StreamEvent]:
        # The last chunk needs no report: the first token follows it at once.
        if num_processed >= self.num_prompt_tokens - 1:
            return []
        return [
            PromptProgress(
                num_processed=num_processed, num_cached=num_cached, num_prompt_tokens=self.num_prompt_tokens
            )
        ]

    def _end(self) -> None:
        self._is_over = True
        self._entry.end("finished")
        self._tokens.cancel()
        self._on_end()


def _scored(updates: list[RowUpdate]) -> list[tuple[int, Score]]:
    return [
        pair
        for update in updates
        if update.scores
        for pair in zip(update.token_ids, update.scores, strict=True)
    ]


def _token_score(token_id: int, score: Score) -> TokenScore:
    return TokenScore(token_id=token_id, logprob=score.logprob, top=tuple(score.top))

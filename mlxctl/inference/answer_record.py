"""What is recorded of one answer in flight. Event-loop thread only."""

from collections.abc import Callable, Iterable, Sequence

from mlxctl.engine import RowUpdate
from mlxctl.inference.cache.recent_prompts import RecordedPrompt
from mlxctl.inference.request_entry import RequestEntry
from mlxctl.ir import Finished, StreamEvent
from mlxctl.ir.errors import MlxctlError, RequestCancelled


class AnswerRecord:
    """Records an answer for the request log and for cache explanations.

    `on_complete` gets all tokens when the engine has ended the sequence. `on_end` is called at every end,
    possibly twice.
    """

    def __init__(
        self,
        entry: RequestEntry,
        prompt: RecordedPrompt,
        *,
        answer_ids: list[int],
        on_complete: Callable[[Sequence[int]], None],
        on_end: Callable[[], None],
    ) -> None:
        """`answer_ids` is empty at first and gets the answer's tokens."""
        self._entry = entry
        self._prompt = prompt
        self._answer_ids = answer_ids
        self._on_complete = on_complete
        self._on_end = on_end

    @property
    def seconds(self) -> tuple[float, float]:
        """Seconds to the first token, and from there to the end."""
        return self._entry.seconds

    def on_cancel(self, abort: Callable[[RequestCancelled], None]) -> None:
        """Call `abort` when the request is cancelled by its entry."""
        self._entry.on_cancel = abort

    def add(self, updates: Iterable[RowUpdate]) -> None:
        """Record updates of the engine."""
        num_tokens = 0
        for update in updates:
            num_tokens += len(update.token_ids)
            self._answer_ids += update.token_ids
            if update.num_processed is not None:
                usage = self._prompt.cache_usage = update.cache_usage
                self._entry.prefilled(update.num_processed, usage.num_cached_tokens, hit=usage.hit)
                self._entry.prefill = update.prefill or self._entry.prefill
            if update.interruption is not None or update.has_resumed:
                self._entry.interrupted(update.interruption)
        if num_tokens:
            self._entry.generated(num_tokens)

    def complete(self) -> None:
        """Record that the engine has ended the sequence."""
        if not self._prompt.is_off:
            self._prompt.answer_ids = self._answer_ids
        self._on_complete(self._answer_ids)

    def finish(self, events: Iterable[StreamEvent]) -> None:
        """Record the end of the answer, of which `events` are the last."""
        for event in events:
            if isinstance(event, Finished):
                self._entry.finish_reason = event.reason
                self._entry.num_thinking = event.usage.num_thinking_tokens
        self._end()

    def refuse(self) -> None:
        """Record that a guardrail ended the answer."""
        self._entry.finish_reason = "refusal"
        self._end()

    def fail(self, error: MlxctlError) -> None:
        """Record that the engine cannot finish the answer; `stop` follows."""
        self._entry.end("stopped" if isinstance(error, RequestCancelled) else "failed")

    def stop(self) -> None:
        """Record that the caller ended the answer, unless it had ended."""
        self._entry.end("stopped")
        self._on_end()

    def _end(self) -> None:
        self._entry.end("finished")
        self._on_end()

"""Open and recently ended requests, without content. Event-loop thread only."""

import time
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial

from mlxctl.inference.call_context import CallContext
from mlxctl.inference.request_entry import RequestEntry, RequestView
from mlxctl.inference.request_totals import ModelTotals

MAX_ENDED = 200
"""Number of ended requests that are kept."""


class RequestLog:
    """Open requests, recently ended requests, and totals by model name."""

    def __init__(self, *, max_ended: int = MAX_ENDED, clock: Callable[[], float] = time.monotonic) -> None:
        self.totals: defaultdict[str, ModelTotals] = defaultdict(ModelTotals)
        self._clock = clock
        self._num_started = 0
        self._open: dict[int, RequestEntry] = {}
        self._ended: deque[RequestEntry] = deque(maxlen=max_ended)

    def begin(
        self,
        model: str,
        call: CallContext,
        *,
        num_prompt_tokens: int,
        on_end: Callable[[], None] = lambda: None,
    ) -> RequestEntry:
        """Add an entry, also to the record of its request.

        `on_end` is called once.
        """
        self._num_started += 1
        entry = RequestEntry(
            self._num_started,
            model,
            num_prompt_tokens=num_prompt_tokens,
            caller=call.owner,
            on_end=partial(self._record_end, on_end),
            clock=self._clock,
        )
        self._open[entry.number] = entry
        call.record.add(entry)
        return entry

    def views(self, caller: str | None = None) -> list[RequestView]:
        """Return open requests, then ended ones, newest first.

        Those of all callers, or of one.
        """
        entries = (*reversed(self._open.values()), *reversed(self._ended))
        return [entry.view() for entry in entries if caller in (None, entry.caller)]

    def find_open(self, request_id: str) -> list[RequestEntry]:
        """Return the open entries of a request.

        By the entry's number or by the HTTP request's id.
        """
        if request_id.isascii() and request_id.isdecimal() and len(request_id) < 20:
            entry = self._open.get(int(request_id))
            if entry is not None:
                return [entry]
        return [entry for entry in self._open.values() if entry.request_id == request_id != ""]

    def _record_end(self, on_end: Callable[[], None], entry: RequestEntry) -> None:
        del self._open[entry.number]
        self._ended.append(entry)
        self.totals[entry.model].add(entry.view())
        on_end()

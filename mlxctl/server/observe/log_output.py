"""Log lines on standard error, as text or JSON.

Written by a thread of their own. The event loop never waits for standard error: lines that cannot be written
in time are dropped and counted.
"""

import logging
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from mlxctl.server.observe.background_log import BackgroundLog, find_background_log
from mlxctl.server.observe.http_record import logged_request
from mlxctl.state.log_format import JsonFormatter, TextFormatter
from mlxctl.state.settings import ServerSettings

MAX_LINES = 10_000
"""Number of lines that wait to be written."""
_CLOSE_SECONDS = 1.0
_STANDARD_ERROR = 2


class RequestJsonFormatter(JsonFormatter):
    """Adds request_id and trace_id to the lines of a request."""

    def context(self) -> dict[str, object]:
        """Return the ids of the current request."""
        if (request := logged_request.get()) is None:
            return {}
        trace = {} if request.trace_id is None else {"trace_id": request.trace_id}
        return {"request_id": request.request_id, **trace}


class BackgroundHandler(logging.Handler):
    """Writes log lines to `stream` in a thread.

    `close` waits a moment for the last ones.
    """

    def __init__(
        self, stream: TextIO, *, max_lines: int = MAX_LINES, file: BackgroundLog | None = None
    ) -> None:
        """`file` is the log that `stream` writes to, to be bounded."""
        super().__init__()
        self._stream = stream
        self._file = file
        self._lines: queue.Queue[str | None] = queue.Queue(max_lines)
        self._num_dropped = 0
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line, or count it as dropped."""
        try:
            line = self.format(record)
        except Exception:  # a wrong log call must not fail a request
            self.handleError(record)
            return
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._num_dropped += 1

    def close(self) -> None:
        """Write what is queued, for a moment at most."""
        with suppress(queue.Full):
            self._lines.put_nowait(None)
            self._thread.join(_CLOSE_SECONDS)
        super().close()

    def _describe(self, num_dropped: int) -> str:
        message = f"{num_dropped} log lines were dropped: standard error was not read"
        facts = {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", "msg": message}
        return self.format(logging.makeLogRecord(facts))

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            dropped, self._num_dropped = self._num_dropped, 0
            note = f"{self._describe(dropped)}\n" if dropped else ""
            with suppress(OSError, ValueError):
                self._stream.write(f"{note}{line}\n")
                self._stream.flush()
                if self._file is not None:
                    self._file.bound()


@contextmanager
def logging_to_standard_error(settings: ServerSettings) -> Iterator[None]:
    """Send all log messages to standard error inside the block."""
    handler = BackgroundHandler(sys.stderr, file=find_background_log(_STANDARD_ERROR))
    handler.setFormatter(RequestJsonFormatter() if settings.log_format == "json" else TextFormatter())
    # They log every request that this server sends, such as those to a policy server or the hub, at info.
    for client in ("httpx", "httpx2"):
        logging.getLogger(client).setLevel("DEBUG" if settings.log_level == "debug" else "WARNING")
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()

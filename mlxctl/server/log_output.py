"""Log lines on standard error, as text or JSON.

Written by a thread of their own. The event loop never waits for standard error: lines that cannot be written
in time are dropped and counted.
"""

import logging
import queue
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO

import msgspec

from mlxctl.inference.request_context import current_request
from mlxctl.server.background_log import BackgroundLog, find_background_log
from mlxctl.settings import ServerSettings

MAX_LINES = 10_000
"""Number of lines that wait to be written."""
_CLOSE_SECONDS = 1.0
_STANDARD_ERROR = 2


class JsonFormatter(logging.Formatter):
    """One JSON object per line.

    Keys: time, level, logger, message, request_id, trace_id and the record's `fields`.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (context := current_request.get()) is not None:
            line["request_id"] = context.request_id
            if context.trace_id is not None:
                line["trace_id"] = context.trace_id
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


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

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            dropped, self._num_dropped = self._num_dropped, 0
            note = f"{dropped} log lines were dropped: standard error was not read\n" if dropped else ""
            with suppress(OSError, ValueError):
                self._stream.write(f"{note}{line}\n")
                self._stream.flush()
                if self._file is not None:
                    self._file.bound()


def configure_logging(settings: ServerSettings) -> BackgroundHandler:
    """Send all log messages to standard error.

    The caller closes the handler at the end.
    """
    handler = BackgroundHandler(sys.stderr, file=find_background_log(_STANDARD_ERROR))
    handler.setFormatter(
        JsonFormatter()
        if settings.log_format == "json"
        else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%m-%d %H:%M:%S")
    )
    # It logs every request that this server sends, such as those to a policy server, at info.
    logging.getLogger("httpx").setLevel("DEBUG" if settings.log_level == "debug" else "WARNING")
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    return handler

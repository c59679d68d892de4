"""Log lines as text or JSON, of server and engine process."""

import logging
from datetime import UTC, datetime
from typing import Literal

import msgspec

LogFormat = Literal["text", "json"]


class JsonFormatter(logging.Formatter):
    """One JSON object per line.

    Keys: time, level, logger, message, those of `context` and the record's `fields`.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self.context(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()

    def context(self) -> dict[str, object]:
        """Return the fields of every line of the current task."""
        return {}


def text_formatter() -> logging.Formatter:
    """Return the formatter of text lines."""
    return logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%m-%d %H:%M:%S")

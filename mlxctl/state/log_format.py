"""Log lines as text or JSON, of server and engine process."""

import logging
import re
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from mlxctl.terminal_text import escape_control_characters, escape_line

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
            # Lone surrogates, of a file name that is not UTF-8, have no place in JSON.
            "message": record.getMessage().encode(errors="backslashreplace").decode(),
            **self.context(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escape_control_characters(msgspec.json.encode(line).decode())

    def context(self) -> dict[str, object]:
        """Return the fields of every line of the current task."""
        return {}


class TextFormatter(logging.Formatter):
    """One line per object, followed by its exception; control characters are escaped."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%m-%d %H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- logging's API
        # A line end in a message begins no other line.
        return escape_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 -- logging's API
        return escape_control_characters(super().formatException(ei))


def json_line(message: str, *, logger: str, level: int = logging.INFO) -> str:
    """Return a line of a JSON log for text without a logger."""
    facts = {"name": logger, "levelno": level, "levelname": logging.getLevelName(level), "msg": message}
    return JsonFormatter().format(logging.makeLogRecord(facts))


class _Line(msgspec.Struct):
    level: str
    message: str


_EXCEPTION = re.compile(r"[\w.]+(Error|Exception): ")
_PREFIX = "mlxctl: "


def find_reason(log: str) -> str | None:
    """Return why a command ended, from its log in either format.

    That is its last error, or else its last line: native libraries may print after the error. None for an
    empty log.
    """
    lines = [_read(line) for line in log.splitlines() if line.strip()]
    errors = [message for message, is_error in lines if is_error]
    return errors[-1] if errors else lines[-1][0] if lines else None


def _read(line: str) -> tuple[str, bool]:
    """Return the message of a line, and whether it is an error."""
    try:
        read = msgspec.json.decode(line, type=_Line)
    except msgspec.MsgspecError:
        return line.removeprefix(_PREFIX), line.startswith(_PREFIX) or bool(_EXCEPTION.match(line))
    return read.message, read.level == "error"

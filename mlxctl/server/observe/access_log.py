"""The access log: one line for each request that has ended."""

import logging
from collections.abc import Collection

from mlxctl.inference.request_entry import RequestEntry
from mlxctl.server.observe.http_record import HttpRecord

_log = logging.getLogger(__name__)

MAX_CONTENT_CHARS = 100_000
"""Number of characters of a prompt or an answer in the log."""
_MAX_PATH_CHARS = 128
_QUIET_STATUSES = (200, 304, 503)


class AccessLog:
    """Logs requests at info, and those of `quiet_routes` at debug.

    Monitors poll these. With `shows_content` prompts and answers are logged at debug, if the requests keep
    them.
    """

    def __init__(self, *, quiet_routes: Collection[str] = (), shows_content: bool = False) -> None:
        self._quiet_routes = frozenset(quiet_routes)
        self._shows_content = shows_content

    def record(self, request: HttpRecord) -> None:
        """Log one ended request."""
        is_quiet = request.route in self._quiet_routes and request.status in _QUIET_STATUSES
        level = logging.DEBUG if is_quiet else logging.INFO
        if _log.isEnabledFor(level):
            fields = access_fields(request)
            _log.log(level, "%s", _text(fields), extra={"fields": fields})
        if self._shows_content and _log.isEnabledFor(logging.DEBUG):
            for entry in request.entries:
                _log_content(request, entry)


def access_fields(request: HttpRecord) -> dict[str, object]:
    """Return the log fields of an ended request.

    Unknown values are left out. Token counts are sums over all generations of the request; times are in
    seconds.
    """
    entries = request.entries
    views = [entry.view() for entry in entries]
    first = [view.first_token_seconds for view in views if view.first_token_seconds is not None]
    fields: dict[str, object] = {
        "method": request.method,
        "route": request.route or request.path[:_MAX_PATH_CHARS],
        "status": request.status,
        "model": request.model,
        "backend": route(request),
        "prompt_tokens": sum(view.num_prompt_tokens for view in views) if entries else None,
        "cached_tokens": sum(view.num_cached_tokens for view in views) if entries else None,
        "completion_tokens": sum(view.num_generated_tokens for view in views) if entries else None,
        "first_token_seconds": round(min(first), 4) if first else None,
        "total_seconds": round(request.duration_seconds, 4),
        "finish_reason": finish_reason(request),
        "error": request.error,
        "caller": request.caller or None,
        "request_id": request.request_id,
        "trace_id": request.trace_id,
    }
    return {name: value for name, value in fields.items() if value is not None}


def route(request: HttpRecord) -> str | None:
    """Return where the generations were tried, in order: `local`, `remote:NAME`."""
    return ",".join(dict.fromkeys(entry.route for entry in request.entries)) or None


def finish_reason(request: HttpRecord) -> str | None:
    """Return how the generations ended, each reason once.

    For one that was stopped, why.
    """
    reasons = [entry.finish_reason or (entry.state if entry.ended else None) for entry in request.entries]
    return ",".join(dict.fromkeys(reason for reason in reasons if reason and reason != "finished")) or None


def _text(fields: dict[str, object]) -> str:
    head, rest = list(fields.items())[:3], list(fields.items())[3:]
    # SEC: paths and names come from clients; quoting keeps each line one line.
    return " ".join(
        [*(_value(value) for _, value in head), *(f"{name}={_value(value)}" for name, value in rest)]
    )


def _value(value: object) -> str:
    text = str(value)
    return text if text.isprintable() and " " not in text else ascii(text)


def _log_content(request: HttpRecord, entry: RequestEntry) -> None:
    if entry.content is None:
        return
    prompt, answer = (
        data.decode(errors="replace")[:MAX_CONTENT_CHARS]
        for data in (entry.content.prompt(), entry.content.answer())
    )
    fields = {"request_id": request.request_id, "prompt": prompt, "answer": answer}
    _log.debug(
        "content of %s: prompt %r, answer %r", request.request_id, prompt, answer, extra={"fields": fields}
    )

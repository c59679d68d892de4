"""The server's audit log, and GET /admin/audit.

One record per ended request.
"""

import asyncio
from collections.abc import Collection, Iterable
from typing import TypeVar

import msgspec
from falcon.asgi import Request, Response
from msgspec import Struct

from mlxctl.inference.models.manager import Models
from mlxctl.ir.errors import InvalidRequest
from mlxctl.server.http.answer import answer
from mlxctl.server.observe.access_log import finish_reason, route
from mlxctl.server.observe.http_record import HttpRecord
from mlxctl.server.policy.caller import allowed_models
from mlxctl.state.stores.audit import AuditContent, AuditStore
from mlxctl.state.stores.audit_files import MAX_RESULTS, AuditQuery, AuditRecord

_MAX_PATH_CHARS = 128
Number = TypeVar("Number", int, float)


class AuditRecorder:
    """Adds an audit record for each ended request.

    Except reads of `quiet_routes`, which monitors poll.
    """

    def __init__(self, store: AuditStore, *, quiet_routes: Collection[str]) -> None:
        self._store = store
        self._quiet_routes = frozenset(quiet_routes)

    def record(self, request: HttpRecord) -> None:
        """Queue the record of one ended request."""
        if request.route in self._quiet_routes and request.method in ("GET", "HEAD"):
            return
        contents = [
            AuditContent(prompt=entry.content.prompt, answer=entry.content.answer)
            for entry in request.entries
            if entry.content is not None
        ]
        self._store.add(audit_record(request), contents)


def audit_record(request: HttpRecord) -> AuditRecord:
    """Return the record of an ended request, without hashes."""
    entries = request.entries
    views = [entry.view() for entry in entries]
    return AuditRecord(
        time=request.started_at + request.duration_seconds,
        request_id=request.request_id,
        caller=request.caller or None,
        remote=request.remote or None,
        protocol=request.protocol,
        method=request.method,
        route=request.route or request.path[:_MAX_PATH_CHARS],
        model=request.model,
        backend=route(request),
        stream=request.streams,
        status=request.status,
        error=request.error,
        finish_reason=finish_reason(request),
        prompt_tokens=sum(view.num_prompt_tokens for view in views),
        cached_tokens=sum(view.num_cached_tokens for view in views),
        computed_tokens=sum(view.num_read_tokens - view.num_cached_tokens for view in views),
        completion_tokens=sum(view.num_generated_tokens for view in views),
        thinking_tokens=sum(entry.num_thinking for entry in entries),
        images=sum(entry.num_images for entry in entries),
        characters=request.speech.num_characters if request.speech else 0,
        audio_seconds=round(request.speech.audio_seconds, 3) if request.speech else 0.0,
        queue_ms=_most(view.queue_seconds for view in views),
        prefill_ms=_most(view.prefill_seconds for view in views),
        ttft_ms=_milliseconds(
            min((v.first_token_seconds for v in views if v.first_token_seconds is not None), default=None)
        ),
        duration_ms=round(1000 * request.duration_seconds, 3),
        agent=entries[0].agent if entries else None,
        adapter=entries[0].adapter if entries else None,
        guardrail=request.guardrail,
        trace_id=request.trace_id,
        was_disconnected=request.was_disconnected,
    )


class AuditPage(Struct):
    """A page of audit records, newest first.

    `num_dropped` is how many were lost since the start of the server.
    """

    records: list[AuditRecord]
    num_dropped: int


class AuditResource:
    """GET /admin/audit: a page of the audit log."""

    def __init__(self, store: AuditStore | None, manager: Models) -> None:
        self._store = store
        self._manager = manager

    async def on_get(self, request: Request, response: Response) -> None:
        """Search the records. Raises InvalidRequest, also when there is no audit log."""
        if self._store is None:
            raise InvalidRequest("there is no audit log; start the server with --audit")
        limit = _number(request, "limit", int)
        if limit is not None and not 1 <= limit <= MAX_RESULTS:
            raise InvalidRequest(f"limit must be from 1 to {MAX_RESULTS}", param="limit")
        query = AuditQuery(
            since=_number(request, "since", float),
            until=_number(request, "until", float),
            key=request.get_param("key"),
            model=request.get_param("model"),
            status=_number(request, "status", int),
            limit=limit or 100,
            after=_number(request, "after", int),
        )
        allowed = allowed_models(request)

        def is_visible(record: AuditRecord) -> bool:
            return record.model is None or self._manager.is_allowed(record.model, allowed)

        records = await asyncio.to_thread(self._store.search, query, is_visible)
        answer(response, AuditPage(records=records, num_dropped=self._store.num_dropped))


def _number(request: Request, name: str, kind: type[Number]) -> Number | None:
    text = request.get_param(name)
    if text is None:
        return None
    try:
        value = msgspec.json.decode(text, type=float if kind is float else int)
    except (msgspec.MsgspecError, UnicodeError):
        what = "a number of unix seconds" if kind is float else "a whole number"
        raise InvalidRequest(f"{name} must be {what}", param=name) from None
    return kind(value)


def _most(values: Iterable[float | None]) -> float | None:
    return _milliseconds(max((value for value in values if value is not None), default=None))


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3)

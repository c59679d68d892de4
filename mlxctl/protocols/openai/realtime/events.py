"""Events that the server sends."""

from secrets import token_hex
from typing import Any

import msgspec

from mlxctl.ir.errors import MlxctlError
from mlxctl.protocols.openai.errors import error_detail

_encode = msgspec.json.Encoder().encode
_ID_BYTES = 10


def new_id(kind: str) -> str:
    """Return a new id, such as `item_…`."""
    return f"{kind}_{token_hex(_ID_BYTES)}"


def event(kind: str, **fields: Any) -> bytes:
    """Return an event with these fields."""
    return _encode({"type": kind, "event_id": new_id("event"), **fields})


def error_event(error: MlxctlError, event_id: str | None = None) -> bytes:
    """Return the event of an error; `event_id` is the client's."""
    detail = error_detail(error)
    fields = {
        "type": detail.type,
        "code": detail.code or detail.type,
        "message": detail.message,
        "param": detail.param,
        "event_id": event_id,
    }
    return event("error", error=fields)

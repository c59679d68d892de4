"""W3C trace context: the `traceparent` header of requests."""

import re

# Version, trace id, parent span id, flags. All-zero ids and version ff are invalid.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)
_MAX_CHARS = 256


def trace_id_of(traceparent: str | None) -> str | None:
    """Return the trace id of a header; None for an invalid one."""
    if traceparent is None or len(traceparent) > _MAX_CHARS:
        return None
    match = _TRACEPARENT.fullmatch(traceparent.strip())
    return match[1] if match else None

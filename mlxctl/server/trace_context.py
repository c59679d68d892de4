"""W3C trace context: the `traceparent` header of requests."""

import re

# Version, trace id, parent span id, flags. All-zero ids and version ff are invalid.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)
_MAX_CHARS = 256


def valid_traceparent(traceparent: str | None) -> str | None:
    """Return the header without spaces around it; None for an invalid one."""
    if traceparent is None or len(traceparent) > _MAX_CHARS:
        return None
    traceparent = traceparent.strip()
    return traceparent if _TRACEPARENT.fullmatch(traceparent) else None

"""Refuse a request whose request line and headers are too large.

The HTTP server below bounds its read buffer, which is never smaller than 16 kB; this is the exact limit.
"""

from falcon.asgi import Request, Response

from mlxctl.errors import HeadersTooLarge

# The spaces, version and line ends of a request line; the colon, space and line end of a header; the empty
# line at the end.
_LINE_BYTES, _HEADER_BYTES, _END_BYTES = 12, 4, 2


class HeaderLimit:
    """Counts bytes as they were sent."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes

    async def process_request(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Raise HeadersTooLarge."""
        scope = request.scope
        query = scope["query_string"]
        target_bytes = (
            len(scope.get("raw_path") or scope["path"].encode("utf-8", "surrogateescape"))
            + len(query)
            + bool(query)
        )
        header_bytes = sum(len(name) + len(value) + _HEADER_BYTES for name, value in scope["headers"])
        if len(request.method) + target_bytes + _LINE_BYTES + header_bytes + _END_BYTES > self._limit_bytes:
            raise HeadersTooLarge(limit_bytes=self._limit_bytes)

"""Refuse requests whose request line and headers exceed the limit.

Granian only bounds its read buffer, at 16 kB or more; this is the exact limit.
"""

from falcon.asgi import Request, Response

from mlxctl.ir.errors import HeadersTooLarge

# Bytes of a request line besides method and target; of a header besides name and value; of the empty line.
_LINE_BYTES, _HEADER_BYTES, _END_BYTES = 12, 4, 2


class HeaderLimit:
    """Counts the bytes of the request head as sent."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes

    async def process_request(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Raise HeadersTooLarge for headers beyond the limit."""
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

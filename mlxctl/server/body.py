"""Request bodies, read within the size limit."""

from collections.abc import AsyncGenerator
from typing import TypeVar

import msgspec
from falcon.asgi import Request

from mlxctl.errors import BodyTooLarge, InvalidRequest
from mlxctl.protocols.decoding import decode_body

_LARGE_BYTES = 1 << 20
_REPLACED = "replaced_body"

Body = TypeVar("Body")


async def read_body(request: Request, *, limit_bytes: int) -> bytes | bytearray:
    """Return the whole body.

    Raises BodyTooLarge at the first byte beyond the limit, and QueueFull when the bodies of open requests
    take too much memory. A large one is a bytearray.
    """
    replaced: bytes | bytearray | None = getattr(request.context, _REPLACED, None)
    if replaced is not None:
        return replaced
    encoding = request.get_header("content-encoding")
    if encoding not in (None, "identity"):
        raise InvalidRequest(f"content-encoding {encoding!r} is not accepted; send the body as it is")
    # PERF: joining the chunks of a large body at its end would block the event loop.
    body = bytearray()
    async for chunk in _chunks(request, limit_bytes):
        request.context.body_account.add(len(chunk))
        body += chunk
    return bytes(body) if len(body) < _LARGE_BYTES else body


def replace_body(request: Request, body: bytes | bytearray) -> None:
    """Let `read_body` return `body`.

    For a resource that hands its request to another one.
    """
    setattr(request.context, _REPLACED, body)


async def discard_body(request: Request, *, limit_bytes: int) -> None:
    """Read the body and drop it. Raises BodyTooLarge."""
    async for _ in _chunks(request, limit_bytes):
        pass


async def read_json(request: Request, decoder: msgspec.json.Decoder[Body], *, limit_bytes: int) -> Body:
    """Return the decoded body. Raises InvalidRequest, BodyTooLarge, QueueFull."""
    return decode_body(bytes(await read_body(request, limit_bytes=limit_bytes)), decoder)


async def _chunks(request: Request, limit_bytes: int) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of the body up to the limit.

    Raises BodyTooLarge, and InvalidRequest for an encoded body, such as a compressed one.
    """
    # With chunks, hyper drops a Content-Length (RFC 9112, 6.3); it leaves other encodings undecoded.
    encoding = request.get_header("transfer-encoding")
    if encoding is not None and encoding.lower() != "chunked":
        raise InvalidRequest(f"transfer-encoding {encoding!r} is not accepted; send the body as it is")
    num_bytes_left = limit_bytes
    if (request.content_length or 0) > limit_bytes:
        raise BodyTooLarge(limit_bytes=limit_bytes)
    async for chunk in request.stream:
        num_bytes_left -= len(chunk)
        if num_bytes_left < 0:
            raise BodyTooLarge(limit_bytes=limit_bytes)
        yield chunk

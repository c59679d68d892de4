"""Request bodies, read within the size limit."""

import codecs
from collections.abc import AsyncGenerator
from typing import TypeVar

import msgspec
from falcon.asgi import Request

from mlxctl.ir.errors import BodyTooLarge, EncodedBody, InvalidRequest
from mlxctl.protocols.decoding import decode_body
from mlxctl.server.middleware.body_memory import BodyAccount

_LARGE_BYTES = 1 << 20

Body = TypeVar("Body")


async def read_body(request: Request, *, limit_bytes: int) -> bytes | bytearray:
    """Return the whole body, without a byte order mark.

    A large one is a bytearray. Raises EncodedBody for a compressed one, BodyTooLarge at the first byte beyond
    the limit, QueueFull when the bodies of open requests take too much memory, and BodyTooSlow.
    """
    encoding = request.get_header("content-encoding")
    if encoding not in (None, "identity"):
        raise EncodedBody(encoding)
    account: BodyAccount = request.context.body_account
    num_bytes = request.content_length
    # PERF: joining the chunks of a large body at its end would block the event loop.
    body = bytearray()
    async with account.receiving(limit_bytes if num_bytes is None else min(num_bytes, limit_bytes)) as upload:
        async for chunk in _chunks(request, limit_bytes):
            account.add(len(chunk))
            body += chunk
            await upload.received(len(chunk))
    if body.startswith(codecs.BOM_UTF8):
        del body[: len(codecs.BOM_UTF8)]
    return bytes(body) if len(body) < _LARGE_BYTES else body


async def discard_body(request: Request, *, limit_bytes: int) -> None:
    """Read the body and drop it. Raises BodyTooLarge."""
    async for _ in _chunks(request, limit_bytes):
        pass


async def read_json(request: Request, decoder: msgspec.json.Decoder[Body], *, limit_bytes: int) -> Body:
    """Return the decoded body. Raises InvalidRequest, EncodedBody, BodyTooLarge, QueueFull."""
    return decode_body(bytes(await read_body(request, limit_bytes=limit_bytes)), decoder)


async def _chunks(request: Request, limit_bytes: int) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of the body up to the limit.

    Raises BodyTooLarge, and InvalidRequest for another transfer encoding than chunks.
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

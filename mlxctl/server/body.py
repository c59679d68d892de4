"""Read a request body, never holding more of it than the limit allows."""

from typing import TypeVar

import msgspec
from falcon.asgi import Request

from mlxctl.errors import BodyTooLarge, InvalidRequest
from mlxctl.protocols.decoding import decode_body

Body = TypeVar("Body")


async def read_body(request: Request, *, limit_bytes: int) -> bytes:
    """Return the whole body; raises BodyTooLarge at the first byte beyond the limit, announced or not."""
    encoding = request.get_header("content-encoding")
    if encoding not in (None, "identity"):
        raise InvalidRequest(f"content-encoding {encoding!r} is not accepted; send the body as it is")
    if (request.content_length or 0) > limit_bytes:
        raise BodyTooLarge(limit_bytes=limit_bytes)
    chunks: list[bytes] = []
    num_bytes = 0
    async for chunk in request.stream:
        num_bytes += len(chunk)
        if num_bytes > limit_bytes:
            raise BodyTooLarge(limit_bytes=limit_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


async def read_json(request: Request, decoder: msgspec.json.Decoder[Body], *, limit_bytes: int) -> Body:
    """Return the body as what `decoder` reads. Raises InvalidRequest, BodyTooLarge."""
    return decode_body(await read_body(request, limit_bytes=limit_bytes), decoder)

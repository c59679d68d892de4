"""Read a form with files from a request, never holding more of it than the limit allows."""

import io
from functools import partial

import falcon
from falcon.asgi import Request
from falcon.media import MultipartFormHandler
from falcon.media.multipart import MultipartParseOptions

from mlxctl.errors import InvalidRequest
from mlxctl.inference.preparation import PreparationPool
from mlxctl.server.body import read_body

_MAX_FIELDS = 64


async def read_form(
    request: Request, preparation: PreparationPool, *, limit_bytes: int
) -> dict[str, list[bytes]]:
    """Return all values of every field of a `multipart/form-data` body.

    Raises InvalidRequest, BodyTooLarge, QueueFull.
    """
    content_type = request.content_type or ""
    if not content_type.lower().startswith("multipart/form-data"):
        raise InvalidRequest("the request body must be a form with a file; send it as multipart/form-data")
    body = await read_body(request, limit_bytes=limit_bytes)
    fields: dict[str, list[bytes]] = await preparation.parse(body, partial(_parse, content_type=content_type))
    return fields


def _parse(body: bytes, content_type: str) -> dict[str, list[bytes]]:
    options = MultipartParseOptions()
    options.max_body_part_buffer_size = max(1, len(body))
    options.max_body_part_count = _MAX_FIELDS
    fields: dict[str, list[bytes]] = {}
    try:
        for part in MultipartFormHandler(options).deserialize(io.BytesIO(body), content_type, len(body)):
            fields.setdefault(part.name or "", []).append(part.get_data())
    except falcon.HTTPError as error:
        raise InvalidRequest(
            f"the request body is no readable form: {error.description or error.title}"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            "the request body is no readable form: the names of its fields are not UTF-8"
        ) from error
    return fields

"""Whole answers of resources."""

import falcon
import msgspec
from falcon.asgi import Response


def answer(response: Response, body: object, media_type: str = falcon.MEDIA_JSON) -> None:
    """Set the body: bytes as they are, other values as JSON."""
    response.data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    response.content_type = media_type

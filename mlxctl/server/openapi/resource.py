"""GET /openapi.json."""

import falcon
import msgspec
from falcon.asgi import Request, Response

from mlxctl.server.openapi.document import build_document
from mlxctl.server.openapi.operations import DOWNLOAD, OPERATIONS


class OpenApiResource:
    """The description, made when it is first asked for."""

    def __init__(self, *, allows_downloads: bool) -> None:
        self._operations = (*OPERATIONS, DOWNLOAD) if allows_downloads else OPERATIONS
        self._body: bytes | None = None

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Give it."""
        if self._body is None:
            self._body = msgspec.json.encode(build_document(self._operations))
        response.data = self._body
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get

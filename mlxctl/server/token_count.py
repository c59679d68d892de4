"""POST /v1/messages/count_tokens: the size of a prompt, by the same way that the prompt would go.

Nothing is generated.
"""

import falcon
from falcon.asgi import Request, Response

from mlxctl.inference import InferenceService
from mlxctl.protocols import encode_token_count, parse_count_tokens
from mlxctl.server.body import read_body
from mlxctl.server.caller import with_caller
from mlxctl.settings import ServerSettings


class TokenCountResource:
    """Takes no place in the queue and never asks the engine."""

    def __init__(self, inference: InferenceService, settings: ServerSettings) -> None:
        self._inference = inference
        self._settings = settings

    async def on_post(self, request: Request, response: Response) -> None:
        """Count."""
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        asked = await self._inference.preparation.parse(body, parse_count_tokens)
        response.data = encode_token_count(await self._inference.count_tokens(with_caller(asked, request)))
        response.content_type = falcon.MEDIA_JSON

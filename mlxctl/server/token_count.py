"""POST /v1/messages/count_tokens: the length of a prompt, without generation."""

import falcon
from falcon.asgi import Request, Response

from mlxctl.inference import InferenceService
from mlxctl.protocols import encode_token_count, parse_count_tokens
from mlxctl.server.body import read_body
from mlxctl.server.caller import with_caller
from mlxctl.server.deadline import deadline_of
from mlxctl.server.rate_limits import admit
from mlxctl.settings import ServerSettings


class TokenCountResource:
    """Counts the tokens of the rendered prompt.

    Uses no queue and no engine.
    """

    def __init__(self, inference: InferenceService, settings: ServerSettings) -> None:
        self._inference = inference
        self._settings = settings

    async def on_post(self, request: Request, response: Response) -> None:
        """Return the number of prompt tokens."""
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        async with deadline_of(request, self._settings).limit():
            packed = await self._inference.preparation.parse(body, parse_count_tokens)
            admit(request, response, self._inference.manager.own_name(packed.head.model))
            packed = with_caller(packed, request)
            num_tokens = await self._inference.count_tokens(packed)
            num_unedited = None
            if packed.head.context_edits:
                num_unedited = await self._inference.count_tokens(packed.with_head(context_edits=()))
        response.data = encode_token_count(num_tokens, num_unedited_tokens=num_unedited)
        response.content_type = falcon.MEDIA_JSON

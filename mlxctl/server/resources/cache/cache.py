"""/cache: list, pin, unpin, delete and explain prefix-cache entries.

The answers contain text of other callers' requests, so these routes need an admin key where there are admin
keys.
"""

from array import array
from typing import Annotated, Literal

import msgspec
from falcon.asgi import Request, Response

from mlxctl.engine import CacheAction, CachedChunk
from mlxctl.inference import InferenceService
from mlxctl.inference.cache import CacheView
from mlxctl.inference.cache.token_text import comparable_ids
from mlxctl.inference.call_context import CallContext
from mlxctl.ir import GenerationRequest
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols import PROTOCOLS
from mlxctl.protocols.decoding import decode_body
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_body, read_json
from mlxctl.server.policy.caller import call_of, with_header_options
from mlxctl.server.resources.cache.cache_answers import CacheChanged, ChunkPage, ChunkView, Explanations
from mlxctl.state.settings import ServerSettings

MAX_PAGE_CHUNKS = 500
MAX_EXPLAINED = 64
_MAX_KEYS_BODY_BYTES = 1 << 20

Protocol = Literal["chat", "messages", "responses"]


class CacheKeys(msgspec.Struct, forbid_unknown_fields=True):
    """Keys of chunks, as /cache lists them."""

    keys: Annotated[
        list[Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]], msgspec.Meta(max_length=10_000)
    ] = []


class CacheQuestion(msgspec.Struct, forbid_unknown_fields=True):
    """A request that is explained and not run.

    `protocol` is its wire format.
    """

    body: msgspec.Raw
    protocol: Protocol = "chat"


_KEYS = msgspec.json.Decoder(CacheKeys)
_QUESTIONS = msgspec.json.Decoder(CacheQuestion)


class CacheResource:
    """/cache: lists and clears cached chunks."""

    def __init__(self, cache: CacheView) -> None:
        self._cache = cache

    async def on_get(self, request: Request, response: Response) -> None:
        """List a page of chunks, least recently used first.

        `next_offset` is null on the last page. Raises InvalidRequest.
        """
        offset = _number(request, "offset", default=0, least=0, most=1 << 40)
        limit = _number(request, "limit", default=MAX_PAGE_CHUNKS, least=1, most=MAX_PAGE_CHUNKS)
        has_tokens = request.get_param_as_bool("tokens", default=False)
        call = call_of(request)
        page = await self._cache.page(call.models, offset=offset, limit=limit)
        models = dict.fromkeys(chunk.model for chunk in page.chunks if chunk.model)
        markers = {model: await self._cache.markers(model, call) for model in models}
        listed = ChunkPage(
            chunks=[await self._described(chunk, call, has_tokens=has_tokens) for chunk in page.chunks],
            user_markers={model: found for model, found in markers.items() if found is not None},
            num_chunks=page.num_chunks,
            next_offset=page.end,
        )
        answer(response, listed)

    async def _described(self, chunk: CachedChunk, call: CallContext, *, has_tokens: bool) -> ChunkView:
        token_ids = array("I", chunk.tokens)
        text = (
            await self._cache.text(chunk.model, call, token_ids, chunk.salts, chunk.start)
            if chunk.model
            else None
        )
        listed_ids = comparable_ids(token_ids, chunk.salts, chunk.start) if has_tokens else None
        return ChunkView.of(chunk, num_tokens=len(token_ids), text=text, token_ids=listed_ids)


class CacheChangeResource:
    """POST /cache/pin, /cache/unpin and /cache/drop with `keys`; /cache/clear and /cache/gc without."""

    def __init__(self, cache: CacheView, action: CacheAction) -> None:
        self._cache = cache
        self._action = action

    async def on_post(self, request: Request, response: Response) -> None:
        """Change the chunks and return how many changed. Raises InvalidRequest."""
        keys = [] if self._action in ("clear", "gc") else await self._keys(request)
        change = await self._cache.change(self._action, keys)
        answer(response, CacheChanged(num_changed=change.num_changed, num_chunks=change.num_chunks))

    async def _keys(self, request: Request) -> list[bytes]:
        keys = (await read_json(request, _KEYS, limit_bytes=_MAX_KEYS_BODY_BYTES)).keys
        if not keys:
            raise InvalidRequest("keys is empty; send at least one key of /cache", param="keys")
        return [bytes.fromhex(key) for key in keys]


class CacheExplanationResource:
    """GET /cache/explain?last=N; POST /cache/explain with a request that is not run."""

    def __init__(self, inference: InferenceService, settings: ServerSettings) -> None:
        self._inference = inference
        self._settings = settings

    async def on_get(self, request: Request, response: Response) -> None:
        """Explain the last requests, newest first. Raises InvalidRequest."""
        num = _number(request, "last", default=1, least=1, most=MAX_EXPLAINED)
        explanations = await self._inference.cache.explain_last(num, call_of(request))
        answer(response, Explanations(explanations=explanations))

    async def on_post(self, request: Request, response: Response) -> None:
        """Explain how much of `body`, a request of `protocol`, is cached.

        Raises what the request itself would raise.
        """
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        call = call_of(request)
        async with call.within_deadline():
            packed = await self._inference.preparation.parse(body, parse_question)
            name = await self._inference.models.answering(packed.head.model, call)
            explanation = await self._inference.cache.explain_request(
                with_header_options(packed.with_head(model=name), request), call
            )
        answer(response, Explanations(explanations=[explanation]))


def parse_question(body: bytes) -> GenerationRequest:
    """Parse the request to explain. Raises InvalidRequest."""
    question = decode_body(body, _QUESTIONS)
    return PROTOCOLS[question.protocol].parse_alone(bytes(question.body))


def _number(request: Request, name: str, *, default: int, least: int, most: int) -> int:
    text = request.get_param(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and least <= int(text[:18]) <= most):
        raise InvalidRequest(f"{name} must be a number from {least} to {most}", param=name)
    return int(text)

"""/v1/responses and stored responses."""

import asyncio

from falcon.asgi import Request, Response

from mlxctl.ir import StoredItem, StoredResponse
from mlxctl.ir.errors import InvalidRequest, UnknownResource
from mlxctl.protocols import (
    Page,
    encode_deletion,
    encode_item_list,
)
from mlxctl.protocols.openai.responses.compaction import TokenCountOfResponse
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_body
from mlxctl.server.http.rate_limits import admit
from mlxctl.server.http.route import RouteContext
from mlxctl.server.policy.caller import call_of, with_header_options
from mlxctl.server.resources.generation.generation import GenerationResource
from mlxctl.state.stores import ResponseStore


class ResponseTokensResource:
    """Counts the prompt tokens of a response without generating it."""

    def __init__(self, context: RouteContext, responses: GenerationResource) -> None:
        self._inference = context.services.inference
        self._settings = context.settings
        self._responses = responses

    async def on_post(self, request: Request, response: Response) -> None:
        """Return the count. Raises RequestError."""
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        call = call_of(request)
        async with call.within_deadline():
            parsed, _, _ = await self._responses.read(body, request, {})
            packed = with_header_options(parsed, request)
            name = await self._inference.models.answering(packed.head.model, call)
            admit(request, response, self._inference.models.own_name(name))
            num_tokens = await self._inference.tokenization.count(packed.with_head(model=name), call)
        answer(response, TokenCountOfResponse(input_tokens=num_tokens))


class StoredResponseResource:
    """/v1/responses/{id}: one stored response of the caller."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    async def on_get(self, request: Request, response: Response, response_id: str) -> None:
        """Return the response as it was sent. Raises UnknownResource."""
        if request.get_param("stream") == "true":
            raise InvalidRequest("stream is not supported for stored responses; leave it out", param="stream")
        kept = await find_response(self._store, call_of(request).owner, response_id)
        answer(response, kept.body)

    async def on_delete(self, request: Request, response: Response, response_id: str) -> None:
        """Delete the response. Raises UnknownResource."""
        if not await asyncio.to_thread(self._store.delete, call_of(request).owner, response_id):
            raise _unknown(response_id)
        answer(response, encode_deletion(response_id))


class InputItemsResource:
    """The input items of a stored response."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    async def on_get(self, request: Request, response: Response, response_id: str) -> None:
        """List the items, with those of earlier responses. Raises UnknownResource."""
        page = Page.read(
            limit=request.get_param("limit"),
            order=request.get_param("order"),
            after=request.get_param("after"),
        )
        kept = await find_response(self._store, call_of(request).owner, response_id)
        earlier: tuple[StoredItem, ...] | None = ()
        if kept.previous_id is not None:
            earlier = await asyncio.to_thread(
                self._store.conversation, call_of(request).owner, kept.previous_id
            )
        answer(response, encode_item_list((*(earlier or ()), *kept.input), page))


class CancellationResource:
    """Cancellation of background responses, which this server does not have.

    A client cancels by disconnecting.
    """

    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    async def on_post(self, request: Request, response: Response, response_id: str) -> None:  # noqa: ARG002
        """Refuse the cancellation. Raises UnknownResource, InvalidRequest."""
        await find_response(self._store, call_of(request).owner, response_id)
        raise InvalidRequest(
            f"response {response_id!r} has ended; only background responses can be cancelled, and they are "
            "not supported",
            param="response_id",
        )


async def find_response(store: ResponseStore, caller: str, response_id: str) -> StoredResponse:
    """Return the caller's stored response. Raises UnknownResource."""
    kept = await asyncio.to_thread(store.find, caller, response_id)
    if kept is None:
        raise _unknown(response_id)
    return kept


def _unknown(response_id: str) -> UnknownResource:
    return UnknownResource(f"there is no stored response with the id {response_id!r}")

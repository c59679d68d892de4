"""/v1/responses and stored responses."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from pickle import PickleBuffer

from falcon.asgi import Request, Response

from mlxctl.inference import InferenceService
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir import SamplingParams, StoredItem, StoredResponse
from mlxctl.ir.errors import InvalidRequest, QueueFull, StoreError, UnknownResource
from mlxctl.protocols import (
    OpenAIResponsesFormatter,
    Page,
    References,
    StoredContext,
    encode_deletion,
    encode_item_list,
)
from mlxctl.protocols.openai.responses.compaction import CompactionFormatter, TokenCountOfResponse
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_body
from mlxctl.server.http.deadline import deadline_of
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.http.rate_limits import admit
from mlxctl.server.middleware.body_memory import BodyAccount
from mlxctl.server.policy.caller import allowed_models, with_caller
from mlxctl.server.resources.generation.generation import GenerationResource, ParsedRequest
from mlxctl.state.settings import ServerSettings
from mlxctl.state.stores import ResponseStore

_log = logging.getLogger(__name__)


UNSTORED_RESPONSE = "mlxctl.unstored_response"
"""Key of the UnstoredResponse in the ASGI scope of a connection's requests."""


class UnstoredResponse:
    """The latest response of a connection with `store: false`.

    Its conversation may have `max_bytes`, and counts in the connection's account; a larger one is dropped.
    """

    def __init__(self, account: BodyAccount, max_bytes: int) -> None:
        self._account = account
        self._max_bytes = max_bytes
        self._response_id: str | None = None
        self._conversation: tuple[StoredItem, ...] = ()

    def keep(self, record: StoredResponse, earlier: Sequence[StoredItem]) -> None:
        """Keep a response with its conversation; the last one is dropped."""
        self.drop()
        conversation = (*earlier, *record.input, *record.output)
        num_bytes = _num_bytes(conversation)
        if num_bytes > self._max_bytes:
            return
        with suppress(QueueFull):
            self._account.add(num_bytes)
            self._response_id, self._conversation = record.id, conversation

    def take(self, response_id: str) -> tuple[StoredItem, ...] | None:
        """Return the conversation of a response and forget it.

        As in Open Responses, a continuation that fails removes the response that it continues.
        """
        if response_id != self._response_id:
            return None
        conversation = self._conversation
        self.drop()
        return conversation

    def drop(self) -> None:
        """Forget the response."""
        self._account.remove(_num_bytes(self._conversation))
        self._response_id, self._conversation = None, ()


def _num_bytes(conversation: Sequence[StoredItem]) -> int:
    return sum(len(item.body) for item in conversation)


class ResponsesResource(GenerationResource[OpenAIResponsesFormatter]):
    """Generates with stored context; stores the response before its end is sent."""

    create_formatter: type[OpenAIResponsesFormatter] = OpenAIResponsesFormatter

    def __init__(
        self,
        inference: InferenceService,
        store: ResponseStore,
        open_requests: OpenHttpRequests,
        settings: ServerSettings,
    ) -> None:
        super().__init__(inference, self.create_formatter, open_requests, settings)
        self._store = store

    async def parse(
        self, formatter: OpenAIResponsesFormatter, body: bytes | bytearray, request: Request
    ) -> ParsedRequest:
        """Parse the body and read the stored items it refers to.

        Raises RequestError.
        """
        caller: str = request.context.caller
        unstored: UnstoredResponse | None = request.scope.get(UNSTORED_RESPONSE)
        formatter.records_unstored = unstored is not None
        preparation = self._inference.preparation
        wanted: PackedRequest | References = await preparation.parse_with(formatter, "parse_or_refer", body)
        if isinstance(wanted, PackedRequest):
            return ParsedRequest.at_once(wanted)
        conversation, items = None, dict[str, bytes]()
        if wanted.previous_id is not None and unstored is not None:
            conversation = unstored.take(wanted.previous_id)
        if wanted.previous_id is not None and conversation is None:
            conversation = await asyncio.to_thread(self._store.conversation, caller, wanted.previous_id)
        if wanted.item_ids:
            items = await asyncio.to_thread(self._store.items, caller, wanted.item_ids)
        context = StoredContext(conversation=conversation, items=items)
        request.context.body_account.add(context.num_bytes)
        num_bytes = len(body) + context.num_bytes
        packed = await preparation.run_with(
            formatter, "parse_again", PickleBuffer(body), context, num_bytes=num_bytes
        )
        formatter.earlier = context.conversation or ()
        return ParsedRequest.at_once(packed)

    def started(
        self,
        formatter: OpenAIResponsesFormatter,
        sampling: SamplingParams,
        request: Request,  # noqa: ARG002
    ) -> None:
        """Pass the final sampling parameters to the formatter."""
        formatter.set_sampling(sampling)

    async def ended(self, formatter: OpenAIResponsesFormatter, request: Request) -> None:
        """Store the response that has ended, or keep it for its connection."""
        record, earlier = formatter.record, formatter.earlier
        if record is not None and formatter.stores:
            await store_response(self._store, request.context.caller, record, earlier=earlier)
        elif record is not None:
            request.scope[UNSTORED_RESPONSE].keep(record, earlier)


class CompactionResource(ResponsesResource):
    """Summarizes a conversation; the answer is not stored."""

    create_formatter = CompactionFormatter


class ResponseTokensResource(ResponsesResource):
    """Counts the prompt tokens of a response without generating it."""

    async def on_post(self, request: Request, response: Response, **names: str) -> None:  # noqa: ARG002
        """Return the count. Raises RequestError."""
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        async with deadline_of(request, self._settings).limit():
            parsed = await self.parse(OpenAIResponsesFormatter(), body, request)
            packed = with_caller(await parsed.request(), request)
            allowed = allowed_models(request)
            name = await self._inference.answering_model(packed.head.model, allowed)
            admit(request, response, self._inference.manager.own_name(name))
            num_tokens = await self._inference.tokenization.count(packed.with_head(model=name), allowed)
        answer(response, TokenCountOfResponse(input_tokens=num_tokens))


class StoredResponseResource:
    """/v1/responses/{id}: one stored response of the caller."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    async def on_get(self, request: Request, response: Response, response_id: str) -> None:
        """Return the response as it was sent. Raises UnknownResource."""
        if request.get_param("stream") == "true":
            raise InvalidRequest("stream is not supported for stored responses; leave it out", param="stream")
        kept = await find_response(self._store, request.context.caller, response_id)
        answer(response, kept.body)

    async def on_delete(self, request: Request, response: Response, response_id: str) -> None:
        """Delete the response. Raises UnknownResource."""
        if not await asyncio.to_thread(self._store.delete, request.context.caller, response_id):
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
        kept = await find_response(self._store, request.context.caller, response_id)
        earlier: tuple[StoredItem, ...] | None = ()
        if kept.previous_id is not None:
            earlier = await asyncio.to_thread(
                self._store.conversation, request.context.caller, kept.previous_id
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
        await find_response(self._store, request.context.caller, response_id)
        raise InvalidRequest(
            f"response {response_id!r} has ended; only background responses can be cancelled, and they are "
            "not supported",
            param="response_id",
        )


async def store_response(
    store: ResponseStore, owner: str, record: StoredResponse, *, earlier: Sequence[StoredItem] = ()
) -> None:
    """Store a response; one that cannot be stored is only logged.

    Its answer is sent nevertheless.
    """
    try:
        await asyncio.to_thread(store.save, owner, record, earlier=earlier)
    except StoreError as error:
        _log.warning("a response was not stored: %s", error)


async def find_response(store: ResponseStore, caller: str, response_id: str) -> StoredResponse:
    """Return the caller's stored response. Raises UnknownResource."""
    kept = await asyncio.to_thread(store.find, caller, response_id)
    if kept is None:
        raise _unknown(response_id)
    return kept


def _unknown(response_id: str) -> UnknownResource:
    return UnknownResource(f"there is no stored response with the id {response_id!r}")

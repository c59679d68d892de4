"""Generation with conversations that the server stores between turns."""

import asyncio
from collections.abc import Callable, Sequence
from pickle import PickleBuffer
from typing import Protocol, TypeVar

from falcon.asgi import Request

from mlxctl.inference import InferenceService
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir import GenerationRequest, StoredItem, StoredResponse
from mlxctl.ir.errors import RequestError
from mlxctl.protocols import Formatter
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.resources.generation.generation import GenerationResource, ParsedRequest
from mlxctl.server.resources.generation.responses import store_response
from mlxctl.state.settings import ServerSettings
from mlxctl.state.stores import ResponseStore


class ThreadFormatter(Formatter, Protocol):
    """A formatter whose requests may continue a stored answer.

    After the end, `record` is the turn to store, None if it is not to be stored.
    """

    record: StoredResponse | None

    def parse_or_refer(self, body: bytes) -> GenerationRequest | str:
        """Parse a request, or return the id of the answer it continues.

        Raises InvalidRequest.
        """

    def parse_again(self, body: bytes, stored: Sequence[StoredItem]) -> GenerationRequest:
        """Parse a request that continues a stored conversation. Raises InvalidRequest."""


ThreadFormatterType = TypeVar("ThreadFormatterType", bound=ThreadFormatter)


class ThreadResource(GenerationResource[ThreadFormatterType]):
    """Generates answers; stores a thread's turn before its end is sent.

    `kind` keeps the threads of protocols apart; `unknown` makes the error for an id that is not stored.
    """

    def __init__(
        self,
        inference: InferenceService,
        store: ResponseStore,
        open_requests: OpenHttpRequests,
        settings: ServerSettings,
        *,
        create_formatter: Callable[..., ThreadFormatterType],
        kind: str,
        unknown: Callable[[str], RequestError],
    ) -> None:
        super().__init__(inference, create_formatter, open_requests, settings)
        self._store = store
        self._kind = kind
        self._unknown = unknown

    async def parse(
        self, formatter: ThreadFormatterType, body: bytes | bytearray, request: Request
    ) -> ParsedRequest:
        """Parse the body and read the conversation that it continues.

        Raises RequestError.
        """
        preparation = self._inference.preparation
        wanted: PackedRequest | str = await preparation.parse_with(formatter, "parse_or_refer", body)
        if isinstance(wanted, PackedRequest):
            return ParsedRequest.at_once(wanted)
        stored = await asyncio.to_thread(self._store.conversation, self._owner(request), wanted)
        if not stored:
            raise self._unknown(wanted)
        num_bytes = len(body) + sum(len(item.body) for item in stored)
        packed = await preparation.run_with(
            formatter, "parse_again", PickleBuffer(body), stored, num_bytes=num_bytes
        )
        return ParsedRequest.at_once(packed)

    async def ended(self, formatter: ThreadFormatterType, request: Request) -> None:
        """Store the turn that has ended, if it belongs to a thread."""
        if formatter.record is not None:
            await store_response(self._store, self._owner(request), formatter.record)

    def _owner(self, request: Request) -> str:
        """Return the owner of a caller's threads, apart from its responses."""
        # SEC: an owner that no printable name of a key equals.
        return f"{self._kind}\x1f{request.context.caller}"

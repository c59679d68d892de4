"""/v1/messages: generation, with stored conversations for threads."""

import asyncio
from pickle import PickleBuffer

from falcon.asgi import Request

from mlxctl.errors import UnknownThread
from mlxctl.inference import InferenceService
from mlxctl.inference.preparation import PackedRequest
from mlxctl.protocols import AnthropicMessagesFormatter
from mlxctl.server.generation import GenerationResource, ParsedRequest
from mlxctl.server.open_requests import OpenHttpRequests
from mlxctl.server.responses import store_response
from mlxctl.settings import ServerSettings
from mlxctl.stores import ResponseStore


class MessagesResource(GenerationResource[AnthropicMessagesFormatter]):
    """Generates messages; stores a thread's turn before its end is sent."""

    def __init__(
        self,
        inference: InferenceService,
        store: ResponseStore,
        open_requests: OpenHttpRequests,
        settings: ServerSettings,
    ) -> None:
        super().__init__(inference, AnthropicMessagesFormatter, open_requests, settings)
        self._store = store

    async def parse(
        self, formatter: AnthropicMessagesFormatter, body: bytes | bytearray, request: Request
    ) -> ParsedRequest:
        """Parse the body and read the conversation that it continues.

        Raises RequestError.
        """
        preparation = self._inference.preparation
        wanted: PackedRequest | str = await preparation.parse_with(formatter, "parse_or_refer", body)
        if isinstance(wanted, PackedRequest):
            return ParsedRequest.at_once(wanted)
        stored = await asyncio.to_thread(self._store.conversation, _owner(request.context.caller), wanted)
        if not stored:
            raise UnknownThread(wanted)
        num_bytes = len(body) + sum(len(item.body) for item in stored)
        packed = await preparation.run_with(
            formatter, "parse_again", PickleBuffer(body), stored, num_bytes=num_bytes
        )
        return ParsedRequest.at_once(packed)

    async def ended(self, formatter: AnthropicMessagesFormatter, request: Request) -> None:
        """Store the turn that has ended, if it belongs to a thread."""
        if formatter.record is not None:
            await store_response(self._store, _owner(request.context.caller), formatter.record)


def _owner(caller: str) -> str:
    """Return the owner of a caller's threads, apart from its responses."""
    # SEC: an owner that no printable name of a key equals.
    return f"threads\x1f{caller}"

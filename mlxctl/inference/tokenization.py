"""Tokens and text of prompts, without generation. Event-loop thread only."""

from array import array
from collections.abc import Callable
from typing import Any

from mlxctl.inference.call_context import CallContext
from mlxctl.inference.image_fetching import ImageFetcher
from mlxctl.inference.models.manager import Models
from mlxctl.inference.preparation import PackedRequest, PreparationPool, jobs
from mlxctl.inference.preparation.limits import SHORT_BYTES
from mlxctl.ir.errors import InvalidRequest, SequenceFailed
from mlxctl.ir.timed_phases import timed


class Tokenization:
    """Tokenizers and chat templates of all models; loads no weights.

    Methods raise RequestError, ModelUnavailable, EngineRecovering.
    """

    def __init__(self, preparation: PreparationPool, models: Models, images: ImageFetcher) -> None:
        self._preparation = preparation
        self._models = models
        self._images = images

    async def count(self, request: PackedRequest, call: CallContext) -> int:
        """Count the tokens of a prompt, which may exceed the context length."""
        num_tokens: int = await self._on_prompt(jobs.count_tokens, request, call)
        return num_tokens

    async def tokenize(
        self, request: PackedRequest, call: CallContext, *, adds_special: bool, wants_pieces: bool
    ) -> jobs.TokenizedText:
        """Return the tokens of a raw prompt or a conversation."""
        found: jobs.TokenizedText = await self._on_prompt(
            jobs.tokenize, request, call, adds_special, wants_pieces
        )
        return found

    async def render(self, request: PackedRequest, call: CallContext) -> str:
        """Return the prompt of a conversation as text."""
        text: str = await self._on_prompt(jobs.render, request, call)
        return text

    async def detokenize(self, model: str, call: CallContext, token_ids: "array[int]") -> str:
        """Return the text of token ids."""
        reader = await self._models.reader(model, call)
        num_bytes = token_ids.itemsize * len(token_ids)
        text: str = await self._preparation.run(
            jobs.detokenize, token_ids, num_bytes=num_bytes, model=reader.name, knows_answers=False
        )
        return text

    async def with_documents(self, request: PackedRequest, call: CallContext) -> PackedRequest:
        """Return the request with the pages of its documents."""
        if not request.has_documents:
            return request
        model = self._models.lora.apply(request, call.models).head.model
        reader = await self._models.reader(model, call)
        try:
            with timed("documents"):
                read: PackedRequest = await self._preparation.run(
                    jobs.with_documents,
                    request,
                    # They take as long as a long prompt.
                    num_bytes=max(request.num_bytes, SHORT_BYTES),
                    model=reader.name,
                    knows_answers=False,
                )
        except SequenceFailed:
            message = "a PDF of the request takes too much memory or time, or cannot be read; send its text"
            raise InvalidRequest(message, param="messages") from None
        return read

    async def with_images(self, request: PackedRequest, call: CallContext) -> PackedRequest:
        """Return the request with its remote images.

        None is fetched for a model that takes none, which refuses them later.
        """
        if not request.remote_images:
            return request
        reader = await self._models.reader(request.head.model, call)
        return await self._images.fetch(request, call) if reader.verdict.takes_images else request

    async def _on_prompt(
        self, function: Callable[..., Any], request: PackedRequest, call: CallContext, *more: Any
    ) -> Any:
        """Run a function on a prompt in a preparation process."""
        request = self._models.lora.apply(await self.with_documents(request, call), call.models)
        request = await self.with_images(request, call)
        reader = await self._models.reader(request.head.model, call)
        return await self._preparation.run_on(function, request, *more, model=reader.name)

"""Routes of tokenizer and chat template, and token counts.

They load no weights and use no queue.
"""

from abc import ABC, abstractmethod
from typing import Any

import msgspec
from falcon.asgi import Request, Response
from msgspec import Struct

from mlxctl.inference import InferenceService, ServedModel
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir.errors import UnknownModel
from mlxctl.protocols import encode_token_count, parse_count_tokens
from mlxctl.protocols.openai.responses.compaction import TokenCountOfResponse
from mlxctl.protocols.tokenization import (
    TokenizationFormatter,
    encode_prompt,
    encode_text,
    parse_detokenize,
    parse_template_request,
)
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_body
from mlxctl.server.http.deadline import deadline_of
from mlxctl.server.http.rate_limits import admit
from mlxctl.server.policy.caller import allowed_models, with_caller
from mlxctl.state.settings import ServerSettings


class _TokenizerResource(ABC):
    def __init__(self, inference: InferenceService, settings: ServerSettings) -> None:
        self._inference = inference
        self._settings = settings

    async def on_post(self, request: Request, response: Response) -> None:
        """Answer a body; a client that leaves cancels the work."""
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        async with deadline_of(request, self._settings).limit():
            answer(response, await self.answer(body, request, response))

    @abstractmethod
    async def answer(self, body: bytes | bytearray, request: Request, response: Response) -> bytes:
        """Return the answer to a body."""

    async def _admitted(self, packed: PackedRequest, request: Request, response: Response) -> PackedRequest:
        """Return the request with its caller and its model.

        One that names no model gets the first.
        """
        name = await self._inference.answering_model(packed.head.model, allowed_models(request))
        admit(request, response, self._inference.manager.own_name(name))
        return with_caller(packed.with_head(model=name), request)


class TokenizeResource(_TokenizerResource):
    """POST /tokenize: the tokens of a text or a conversation."""

    async def answer(self, body: bytes | bytearray, request: Request, response: Response) -> bytes:
        """Return the tokens. Raises RequestError."""
        formatter = TokenizationFormatter()
        parsed: PackedRequest = await self._inference.preparation.parse_with(formatter, "parse", body)
        packed = await self._admitted(parsed, request, response)
        found = await self._inference.tokenization.tokenize(
            packed,
            allowed_models(request),
            adds_special=formatter.adds_special,
            wants_pieces=formatter.wants_pieces,
        )
        encoded: bytes = await self._inference.preparation.call(
            formatter.whole,
            found.token_ids,
            found.pieces,
            found.context_length,
            num_bytes=len(found.token_ids) * (32 if formatter.wants_pieces else 8),
        )
        return encoded


class DetokenizeResource(_TokenizerResource):
    """POST /detokenize: the text of token ids."""

    async def answer(self, body: bytes | bytearray, request: Request, response: Response) -> bytes:
        """Return the text. Raises RequestError."""
        named, token_ids = await self._inference.preparation.parse(body, parse_detokenize)
        allowed = allowed_models(request)
        model = await self._inference.answering_model(named, allowed)
        admit(request, response, self._inference.manager.own_name(model))
        return encode_text(await self._inference.tokenization.detokenize(model, allowed, token_ids))


class TemplateResource(_TokenizerResource):
    """POST /apply-template: the prompt of a conversation as text."""

    async def answer(self, body: bytes | bytearray, request: Request, response: Response) -> bytes:
        """Return the prompt. Raises RequestError."""
        parsed: PackedRequest = await self._inference.preparation.parse(body, parse_template_request)
        packed = await self._admitted(parsed, request, response)
        return encode_prompt(await self._inference.tokenization.render(packed, allowed_models(request)))


class TokenCountResource(_TokenizerResource):
    """POST /v1/messages/count_tokens: the number of tokens of a conversation's prompt."""

    async def answer(self, body: bytes | bytearray, request: Request, response: Response) -> bytes:
        """Return the number, also before context edits. Raises RequestError."""
        parsed: PackedRequest = await self._inference.preparation.parse(body, parse_count_tokens)
        packed, allowed = await self._admitted(parsed, request, response), allowed_models(request)
        num_tokens = await self._inference.tokenization.count(packed, allowed)
        num_unedited = None
        if packed.head.context_edits:
            unedited = packed.with_head(context_edits=())
            num_unedited = await self._inference.tokenization.count(unedited, allowed)
        return encode_token_count(num_tokens, num_unedited_tokens=num_unedited)


class ChatTokenCountResource(_TokenizerResource):
    """POST /v1/chat/completions/input_tokens: the number of tokens of a chat's prompt."""

    async def answer(self, body: bytes | bytearray, request: Request, response: Response) -> bytes:
        """Return the number. Raises RequestError."""
        parsed: PackedRequest = await self._inference.preparation.parse(body, parse_template_request)
        packed = await self._admitted(parsed, request, response)
        num_tokens = await self._inference.tokenization.count(packed, allowed_models(request))
        return msgspec.json.encode(TokenCountOfResponse(input_tokens=num_tokens))


TokenizerInfo = dict[str, Any]
"""The fields of tokenizer_config.json, and the chat template (vLLM)."""


class ModelInfoResource(ABC):
    """Describes one model.

    The first one, or the one that the parameter `model` names.
    """

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:
        """Describe a model. Raises UnknownModel."""
        allowed = allowed_models(request)
        named = request.get_param("model") or self._inference.default_model(allowed)
        name = await self._inference.manager.registered_name(named, allowed)
        await self._inference.manager.read_capabilities()
        models = {model.name: model for model in self._inference.models(allowed)}
        if name not in models:
            raise UnknownModel(name, tuple(models))
        answer(response, self.describe(models[name]))

    @abstractmethod
    def describe(self, model: ServedModel) -> Struct | TokenizerInfo:
        """Return the answer about a model."""


class TokenizerInfoResource(ModelInfoResource):
    """GET /tokenizer_info: the settings of one model's tokenizer."""

    def describe(self, model: ServedModel) -> TokenizerInfo:
        """Return the settings."""
        settings = dict(model.facts.tokenizer_config)
        return (
            {"tokenizer_class": "PreTrainedTokenizerFast"}
            | settings
            | {"chat_template": model.facts.chat_template}
        )

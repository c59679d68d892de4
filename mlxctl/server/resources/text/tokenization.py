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
    encode_prompt,
    encode_text,
    parse_detokenize,
    parse_template_request,
    parse_tokenize,
)
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_body
from mlxctl.server.http.rate_limits import admit
from mlxctl.server.policy.caller import call_of, with_header_options
from mlxctl.state.settings import ServerSettings


class _TokenizerResource(ABC):
    def __init__(self, inference: InferenceService, settings: ServerSettings) -> None:
        self._inference = inference
        self._settings = settings

    async def on_post(self, request: Request, response: Response) -> None:
        """Answer a body; a client that leaves cancels the work."""
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        async with call_of(request).within_deadline():
            answer(response, await self.answer(body, request, response))

    @abstractmethod
    async def answer(self, body: bytes | bytearray, request: Request, response: Response) -> bytes:
        """Return the answer to a body."""

    async def _admitted(self, packed: PackedRequest, request: Request, response: Response) -> PackedRequest:
        """Return the request with its caller and its model.

        One that names no model gets the first.
        """
        name = await self._inference.models.answering(packed.head.model, call_of(request))
        admit(request, response, self._inference.models.own_name(name))
        return with_header_options(packed.with_head(model=name), request)


class TokenizeResource(_TokenizerResource):
    """POST /tokenize: the tokens of a text or a conversation."""

    async def answer(self, body: bytes | bytearray, request: Request, response: Response) -> bytes:
        """Return the tokens. Raises RequestError."""
        parsed, shape = await self._inference.preparation.parse(body, parse_tokenize)
        packed = await self._admitted(parsed, request, response)
        found = await self._inference.tokenization.tokenize(
            packed,
            call_of(request),
            adds_special=shape.adds_special,
            wants_pieces=shape.wants_pieces,
        )
        encoded: bytes = await self._inference.preparation.call(
            shape.encode,
            found.token_ids,
            found.pieces,
            found.context_length,
            num_bytes=len(found.token_ids) * (32 if shape.wants_pieces else 8),
        )
        return encoded


class DetokenizeResource(_TokenizerResource):
    """POST /detokenize: the text of token ids."""

    async def answer(self, body: bytes | bytearray, request: Request, response: Response) -> bytes:
        """Return the text. Raises RequestError."""
        named, token_ids = await self._inference.preparation.parse(body, parse_detokenize)
        call = call_of(request)
        model = await self._inference.models.answering(named, call)
        admit(request, response, self._inference.models.own_name(model))
        return encode_text(await self._inference.tokenization.detokenize(model, call, token_ids))


class TemplateResource(_TokenizerResource):
    """POST /apply-template: the prompt of a conversation as text."""

    async def answer(self, body: bytes | bytearray, request: Request, response: Response) -> bytes:
        """Return the prompt. Raises RequestError."""
        parsed: PackedRequest = await self._inference.preparation.parse(body, parse_template_request)
        packed = await self._admitted(parsed, request, response)
        return encode_prompt(await self._inference.tokenization.render(packed, call_of(request)))


class TokenCountResource(_TokenizerResource):
    """POST /v1/messages/count_tokens: the number of tokens of a conversation's prompt."""

    async def answer(self, body: bytes | bytearray, request: Request, response: Response) -> bytes:
        """Return the number, also before context edits. Raises RequestError."""
        parsed: PackedRequest = await self._inference.preparation.parse(body, parse_count_tokens)
        packed, call = await self._admitted(parsed, request, response), call_of(request)
        num_tokens = await self._inference.tokenization.count(packed, call)
        num_unedited = None
        if packed.head.context_edits:
            unedited = packed.with_head(context_edits=())
            num_unedited = await self._inference.tokenization.count(unedited, call)
        return encode_token_count(num_tokens, num_unedited_tokens=num_unedited)


class ChatTokenCountResource(_TokenizerResource):
    """POST /v1/chat/completions/input_tokens: the number of tokens of a chat's prompt."""

    async def answer(self, body: bytes | bytearray, request: Request, response: Response) -> bytes:
        """Return the number. Raises RequestError."""
        parsed: PackedRequest = await self._inference.preparation.parse(body, parse_template_request)
        packed = await self._admitted(parsed, request, response)
        num_tokens = await self._inference.tokenization.count(packed, call_of(request))
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
        call = call_of(request)
        named = request.get_param("model") or self._inference.models.default(call.models)
        name = await self._inference.models.registered_name(named, call)
        await self._inference.models.read_capabilities()
        models = {model.name: model for model in self._inference.models.served(call.models)}
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

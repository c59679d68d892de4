"""What tokens say, and what a request's prompt is, to the models on this machine.

Reads no weights, needs no engine.
"""

import json
from dataclasses import replace
from typing import Any

from mlxctl.adapters import ModelAdapter, PromptTokens, create_adapter
from mlxctl.adapters.templates.agent_headers import without_agent_headers
from mlxctl.bootstrap.configured_models import read_local_model
from mlxctl.errors import ModelError
from mlxctl.inference.cache.prompt_sections import Place, find_place, with_short_images
from mlxctl.inference.cache.user_markers import user_markers
from mlxctl.ir import GenerationRequest
from mlxctl.ir.tokens import Tokens, image_salts, pack
from mlxctl.models import Library
from mlxctl.models.knowledge import open_knowledge
from mlxctl.protocols import PROTOCOLS
from mlxctl.settings import Settings


class LocalModels:
    """Reads what each model needs once, when it is needed first."""

    def __init__(self, settings: Settings) -> None:
        self._library = Library(settings.library)
        self._strips_headers = settings.server.strip_agent_headers
        self._adapters: dict[str, ModelAdapter | None] = {}

    def text(self, model: str, tokens: Tokens) -> str | None:
        """Return what tokens of the model of this name say; None when it does not lie here, or has no such
        tokens.
        """
        adapter = self._adapter(model)
        if adapter is None or max(tokens, default=0) >= adapter.vocabulary.size:
            return None
        return b"".join(map(adapter.vocabulary.bytes_of, tokens)).decode(errors="replace")

    def user_markers(self, model: str) -> tuple[str, str] | None:
        """Return what the model's chat template writes around a user's message; None where there is none."""
        adapter = self._adapter(model)
        return user_markers(adapter) if adapter is not None else None

    def prompt(self, model: str, protocol: str, body: dict[str, Any]) -> PromptTokens | None:
        """Return the prompt that a request is to the model; None when it does not lie here.

        Raises InvalidRequest.
        """
        adapter, request = self._adapter(model), self._request(protocol, body)
        return adapter.prompt_tokens(request) if adapter is not None else None

    def place_at(self, model: str, protocol: str, body: dict[str, Any], position: int) -> Place | None:
        """Return which message or tool of a request token `position` of its prompt is in; None where `prompt`
        is.
        """
        adapter, request = self._adapter(model), self._request(protocol, body)
        if adapter is None:
            return None
        prompt = adapter.prompt_tokens(request)
        text = self.text(
            model, pack(with_short_images(prompt.token_ids, image_salts(prompt.images), position))
        )
        return find_place(request, len(text), adapter) if text is not None else None

    def _request(self, protocol: str, body: dict[str, Any]) -> GenerationRequest:
        request = PROTOCOLS[protocol].create_formatter().parse(json.dumps(body).encode())
        if self._strips_headers:
            request = replace(request, messages=without_agent_headers(request.messages))
        return request

    def _adapter(self, model: str) -> ModelAdapter | None:
        if model not in self._adapters:
            self._adapters[model] = self._load(model)
        return self._adapters[model]

    def _load(self, model: str) -> ModelAdapter | None:
        knowledge = open_knowledge()
        try:
            found = read_local_model(model, library=self._library, knowledge=knowledge)
            return create_adapter(found.facts, name=found.name, capabilities=found.capabilities)
        except ModelError:
            return None
        finally:
            knowledge.close()

"""Tokenizers and templates of local models, without weights or engine."""

import json
from typing import Any

from mlxctl.formats.adapters import ModelAdapter, PromptTokens, create_adapter
from mlxctl.inference.cache.prompt_sections import PromptSection, collapse_images, find_section
from mlxctl.inference.cache.user_markers import user_markers
from mlxctl.inference.models.configured_models import ModelReader
from mlxctl.ir import GenerationRequest
from mlxctl.ir.errors import ModelError
from mlxctl.ir.tokens import Tokens, image_salts, pack
from mlxctl.library import Library
from mlxctl.library.capability_lookup import open_capability_lookup
from mlxctl.protocols import PROTOCOLS
from mlxctl.server.wiring import request_defaults
from mlxctl.state.settings import Settings


class LocalModels:
    """Adapters by model name; each is read once, at its first use."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._library = Library(settings.library)
        self._request_defaults = request_defaults(settings)
        self._adapters: dict[str, ModelAdapter | None] = {}

    def text(self, model: str, tokens: Tokens) -> str | None:
        """Return the text of a model's tokens.

        None if the model is missing or lacks such tokens.
        """
        adapter = self._adapter(model)
        if adapter is None or max(tokens, default=0) >= adapter.vocabulary.size:
            return None
        return b"".join(map(adapter.vocabulary.bytes_of, tokens)).decode(errors="replace")

    def user_markers(self, model: str) -> tuple[str, str] | None:
        """Return the template's markers before and after a user message.

        None if unknown.
        """
        adapter = self._adapter(model)
        return user_markers(adapter) if adapter is not None else None

    def prompt(self, model: str, protocol: str, body: dict[str, Any]) -> PromptTokens | None:
        """Return the prompt of a request body.

        None if the model is missing. Raises InvalidRequest.
        """
        adapter, request = self._adapter(model), _parse(protocol, body)
        return adapter.prompt_tokens(adapter.normalized(request)) if adapter is not None else None

    def section_at(
        self, model: str, protocol: str, body: dict[str, Any], position: int
    ) -> PromptSection | None:
        """Return the message or tool that contains token `position`.

        None if the model is missing.
        """
        adapter, request = self._adapter(model), _parse(protocol, body)
        if adapter is None:
            return None
        normalized = adapter.normalized(request)
        prompt = adapter.prompt_tokens(normalized)
        text = self.text(model, pack(collapse_images(prompt.token_ids, image_salts(prompt.images), position)))
        return find_section(normalized, len(text), adapter) if text is not None else None

    def _adapter(self, model: str) -> ModelAdapter | None:
        if model not in self._adapters:
            self._adapters[model] = self._load(model)
        return self._adapters[model]

    def _load(self, model: str) -> ModelAdapter | None:
        knowledge = open_capability_lookup()
        try:
            reader = ModelReader(self._settings, self._library, knowledge)
            found = reader.local_model(model)
            return create_adapter(
                found.facts,
                name=found.name,
                capabilities=found.probed_capabilities,
                request_defaults=self._request_defaults,
            )
        except ModelError:
            return None
        finally:
            knowledge.close()


def _parse(protocol: str, body: dict[str, Any]) -> GenerationRequest:
    return PROTOCOLS[protocol].parse_alone(json.dumps(body).encode())

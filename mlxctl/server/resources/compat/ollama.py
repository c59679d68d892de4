"""Ollama's routes beside generation: model lists, details, version."""

import hashlib
import time
from datetime import UTC, datetime
from typing import Any

import msgspec
from falcon.asgi import Request, Response

from mlxctl.inference import ServedModel
from mlxctl.inference.call_context import CallContext
from mlxctl.inference.models.manager import Models
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir.errors import InvalidRequest, UnknownModel
from mlxctl.library.catalog import Catalog
from mlxctl.protocols.compat.ollama import schema
from mlxctl.protocols.compat.ollama.encode import OllamaEncoder, OllamaShape
from mlxctl.protocols.compat.ollama.parse import model_name
from mlxctl.protocols.registry import NDJSON
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_json
from mlxctl.server.policy.caller import allowed_models, call_of
from mlxctl.server.resources.generation.generation import GenerationResource

# Clients look for features by the version; these routes follow this one.
API_VERSION = "0.13.0"
_NEVER = "9999-12-31T23:59:59Z"
# Longer times to live are shown as endless.
_LONGEST_SECONDS = 100 * 366 * 86400
_MAX_BODY_BYTES = 64 * 1024
_SHOW = msgspec.json.Decoder(schema.OllamaShowRequest)
_PULL = msgspec.json.Decoder(schema.OllamaPullRequest)


class OllamaResource(GenerationResource):
    """Chat and generate; without content the model is loaded or unloaded."""

    async def answer_at_once(
        self, parsed: PackedRequest, shape: OllamaShape, call: CallContext
    ) -> bytes | None:
        """Load or unload the model for a request without content."""
        if not shape.loads_only:
            return None
        named, keep = parsed.head.model, parsed.head.keep_alive
        model = await self._inference.models.answering(named, call)
        is_unloaded = keep is not None and keep.seconds == 0 and "models:write" in call.caller.scopes
        if is_unloaded:
            await self._inference.models.check(model, call)
        else:
            await self._inference.models.load(model, call)
        self._inference.models.keep_alive(model, keep, call)
        shown = shape.model if model == named else model
        return OllamaEncoder(shape).loaded(shown, is_unloaded=is_unloaded)


class OllamaModelsResource:
    """GET /api/tags and /api/ps: the served or the loaded models."""

    def __init__(self, models: Models, catalog: Catalog, *, loaded_only: bool) -> None:
        self._models = models
        self._catalog = catalog
        self._loaded_only = loaded_only

    async def on_get(self, request: Request, response: Response) -> None:
        """List the models; served ones with their LoRA adapters."""
        await self._models.update()
        allowed = allowed_models(request)
        models = [model for model in self._models.served(allowed) if model.memory or not self._loaded_only]
        entries = [await _entry(self._catalog, model) for model in models]
        if self._loaded_only:
            loaded = [
                schema.OllamaLoadedModel(
                    **entry,
                    expires_at=_expiry(model),
                    size_vram=model.facts.weights_bytes,
                    context_length=model.context_length,
                )
                for model, entry in zip(models, entries, strict=True)
            ]
            answer(response, schema.OllamaLoadedModels(loaded))
        else:
            by_name = {entry["name"]: entry for entry in entries}
            adapters = [
                _adapter_entry(by_name[each.base], each.full_name)
                for each in self._models.lora.adapters(allowed)
                if each.base in by_name
            ]
            listed = [schema.OllamaModel(**entry) for entry in (*entries, *adapters)]
            answer(response, schema.OllamaModels(listed))


class OllamaShowResource:
    """POST /api/show: details of one model."""

    def __init__(self, models: Models, catalog: Catalog) -> None:
        self._models = models
        self._catalog = catalog

    async def on_post(self, request: Request, response: Response) -> None:
        """Describe the model. Raises UnknownModel."""
        parsed = await read_json(request, _SHOW, limit_bytes=_MAX_BODY_BYTES)
        call = call_of(request)
        allowed = call.models
        name = await self._models.registered_name(_requested_model(parsed), call)
        await self._models.read_capabilities()
        models = {model.name: model for model in self._models.served(allowed)}
        base = self._models.lora.base_of(name, allowed)
        if base not in models:
            raise UnknownModel(name, tuple(models))
        model = models[base]
        entry = await _entry(self._catalog, model)
        described = schema.OllamaModelInfo(
            template=model.facts.chat_template or "",
            details=(entry if base == name else _adapter_entry(entry, name))["details"],
            model_info={
                "general.architecture": model.facts.model_type,
                f"{model.facts.model_type}.context_length": model.context_length,
                **(
                    {f"{model.facts.model_type}.embedding_length": model.facts.dimensions}
                    if model.facts.dimensions
                    else {}
                ),
            },
            capabilities=_capabilities(model),
            modified_at=_time(model.created),
        )
        answer(response, described)


class OllamaPullResource:
    """POST /api/pull: confirms that a model is served; it downloads none."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def on_post(self, request: Request, response: Response) -> None:
        """Confirm a served model. Raises UnknownModel."""
        parsed = await read_json(request, _PULL, limit_bytes=_MAX_BODY_BYTES)
        call = call_of(request)
        allowed = call.models
        name = await self._models.registered_name(_requested_model(parsed), call)
        models = tuple(model.name for model in self._models.served(allowed))
        if self._models.lora.base_of(name, allowed) not in models:
            raise UnknownModel(name, models)
        status = schema.OllamaPullStatus("success")
        if parsed.stream is False:
            answer(response, status)
        else:
            answer(response, msgspec.json.encode(status) + b"\n", NDJSON)


class OllamaVersionResource:
    """GET /api/version: the version as Ollama reports it."""

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Answer with the version of the API."""
        answer(response, schema.OllamaVersion(API_VERSION))


async def _entry(catalog: Catalog, model: ServedModel) -> dict[str, Any]:
    described = await catalog.describe(model.name, model.facts.path)
    parameters = described.num_parameters
    details = schema.OllamaDetails(
        family=model.facts.model_type,
        families=[model.facts.model_type],
        parameter_size="" if parameters is None else f"{parameters / 1e9:.1f}B",
        quantization_level=described.quantization_label or "",
    )
    return {
        "name": model.name,
        "model": model.name,
        "modified_at": _time(model.created),
        "size": model.facts.weights_bytes,
        "digest": hashlib.sha256(model.name.encode()).hexdigest(),
        "details": details,
    }


def _adapter_entry(base: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the entry of a LoRA adapter on a model."""
    details = msgspec.structs.replace(base["details"], parent_model=base["name"])
    digest = hashlib.sha256(name.encode()).hexdigest()
    return {**base, "name": name, "model": name, "digest": digest, "details": details}


def _expiry(model: ServedModel) -> str:
    memory = model.memory
    if memory is None or memory.ttl_seconds is None:
        return _NEVER
    # A model in use expires later: its time to live begins at the end of the last request.
    seconds = memory.ttl_seconds if memory.seconds_to_expiry is None else memory.seconds_to_expiry
    return _NEVER if seconds > _LONGEST_SECONDS else _time(time.time() + seconds)


def _capabilities(model: ServedModel) -> list[Any]:
    if model.facts.purpose != "text":
        embeds = model.facts.purpose == "embeddings" and not model.scores_pairs
        return ["embedding"] if embeds else []
    found = {
        "completion": True,
        "tools": model.supports_tools,
        "vision": model.supports_images,
        "thinking": model.supports_thinking,
    }
    return [name for name, is_supported in found.items() if is_supported]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _requested_model(body: schema.OllamaShowRequest) -> str:
    """Return the model that `model` or `name` names. Raises InvalidRequest."""
    if not (body.model or body.name):
        raise InvalidRequest("model is missing; name a model", param="model")
    return model_name(body.model or body.name or "")

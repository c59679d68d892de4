"""llama.cpp's routes beside generation: slots, LoRA adapters, properties.

The server has no slots: a request takes one of as many places as it needs. What llama.cpp changes through
these routes is decided by each request here, so that changes are refused.
"""

from falcon.asgi import Request, Response

from mlxctl import __version__
from mlxctl.inference import InferenceService, ServedModel
from mlxctl.inference.models.manager import Models
from mlxctl.inference.request_entry import RequestView
from mlxctl.ir.errors import InvalidRequest, QueueFull
from mlxctl.protocols.compat.llama_cpp import schema
from mlxctl.protocols.compat.llama_cpp.routes import LLAMA_CPP
from mlxctl.server.http.answer import answer
from mlxctl.server.http.route import Operation, Query, Route
from mlxctl.server.policy.caller import allowed_models, call_of
from mlxctl.server.resources.text.tokenization import ModelInfoResource

# Operators set a queue without limit as a huge number.
_MAX_SLOTS = 1024


def _num_slots(inference: InferenceService) -> int:
    return min(inference.max_places, _MAX_SLOTS)


class SlotsResource:
    """GET /slots: one entry for each place, those with open requests first."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:
        """List the places. Raises QueueFull with `fail_on_no_slot` when none is free."""
        call = call_of(request)
        allowed, caller = call.models, None if call.caller.sees_others else call.owner
        models = {model.name: model.context_length for model in self._inference.models.served(allowed)}
        entries = [view for view in self._inference.requests(allowed, caller) if view.is_open]
        if request.get_param("fail_on_no_slot") and len(entries) >= self._inference.max_places:
            raise QueueFull("no slot is available")
        n_ctx = models.get(self._inference.models.default(allowed), 0)
        busy = [_slot(place, view, models.get(view.model, n_ctx)) for place, view in enumerate(entries)]
        idle = [
            schema.Slot(id=place, n_ctx=n_ctx) for place in range(len(entries), _num_slots(self._inference))
        ]
        answer(response, [*busy, *idle])


class SlotResource:
    """POST /slots/{id}: always refused."""

    async def on_post(self, request: Request, response: Response, slot: str) -> None:  # noqa: ARG002
        """Raise InvalidRequest."""
        raise InvalidRequest(
            "slots cannot be saved, restored or erased; the prefix cache keeps prompts by itself, also on "
            "disk, and POST /cache/clear empties it",
            param="action",
        )


class LoraAdaptersResource:
    """GET /lora-adapters lists the mounted adapters; POST is always refused."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def on_get(self, request: Request, response: Response) -> None:
        """List the adapters of all models."""
        adapters = [
            schema.LoraAdapter(id=place, name=each.name, path=each.shown_path, scale=each.spec.scale)
            for place, each in enumerate(self._models.lora.adapters(allowed_models(request)))
        ]
        answer(response, adapters)

    async def on_post(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Raise InvalidRequest."""
        raise InvalidRequest(
            'scales cannot be set for all requests; send "lora": [{"name": NAME, "scale": SCALE}] with each '
            "request, or set adapters.default"
        )


class PropertiesResource(ModelInfoResource):
    """GET /props: the properties of one model."""

    def describe(self, model: ServedModel) -> schema.ServerProperties:
        """Return the properties."""
        has_tools = bool(model.supports_tools)
        return schema.ServerProperties(
            default_generation_settings=schema.GenerationDefaults(model.context_length),
            total_slots=_num_slots(self._inference),
            model_alias=model.name,
            # The name and not the path: clients must not learn paths of this machine.
            model_path=model.name,
            chat_template=model.facts.chat_template or "",
            chat_template_caps=schema.TemplateAbilities(
                supports_tools=has_tools, supports_tool_calls=has_tools
            ),
            modalities=schema.Modalities(
                vision=bool(model.supports_images), audio=bool(model.supports_audio)
            ),
            build_info=f"mlxctl-{__version__}",
        )


def _slot(place: int, view: RequestView, n_ctx: int) -> schema.Slot:
    return schema.Slot(
        id=place,
        n_ctx=n_ctx,
        is_processing=True,
        id_task=view.number,
        model=view.model,
        n_prompt_tokens=view.num_prompt_tokens,
        n_prompt_tokens_processed=max(view.num_read_tokens - view.num_cached_tokens, 0),
        n_prompt_tokens_cache=view.num_cached_tokens,
        next_token=[schema.NextToken(has_next_token=True, n_decoded=view.num_generated_tokens)],
    )


ROUTES = (
    Route(
        path="/slots",
        resource=lambda context: SlotsResource(context.services.inference),
        protocol=LLAMA_CPP,
        access="requests:read",
        operations=(
            Operation(
                method="get",
                summary="List places for requests, with the open requests in them (llama.cpp)",
                answer=list[schema.Slot],
                query=(Query(name="fail_on_no_slot", schema={"type": "string"}),),
                errors=(503,),
            ),
        ),
    ),
    Route(
        path="/slots/{slot}",
        resource=lambda _: SlotResource(),
        protocol=LLAMA_CPP,
        access="cache:write",
        operations=(
            Operation(
                method="post",
                summary="Always refused: the prefix cache keeps prompts by itself",
                answer=schema.Slot,
            ),
        ),
    ),
    Route(
        path="/lora-adapters",
        resource=lambda context: LoraAdaptersResource(context.services.inference.models),
        protocol=LLAMA_CPP,
        access="adapters:write",
        operations=(
            Operation(
                method="get",
                summary="List the mounted LoRA adapters (llama.cpp)",
                answer=list[schema.LoraAdapter],
            ),
            Operation(
                method="post",
                summary="Always refused: each request decides the scales of its adapters",
                answer=list[schema.LoraAdapter],
            ),
        ),
    ),
    Route(
        path="/props",
        resource=lambda context: PropertiesResource(context.services.inference),
        protocol=LLAMA_CPP,
        access="caller",
        operations=(
            Operation(
                method="get",
                summary="Get the properties of a model (llama.cpp)",
                answer=schema.ServerProperties,
                query=(Query(name="model", schema={"type": "string"}),),
                errors=(404,),
            ),
        ),
    ),
)

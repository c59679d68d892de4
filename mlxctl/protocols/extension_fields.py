"""Fields of mlxctl in the bodies of every protocol.

`ExtensionFields` is their one table: bodies inherit it, OpenAPI and the reference are made of it, and
`with_extensions` applies it. A body whose vendor has a field of the same name overrides it and keeps the
vendor's meaning.
"""

from dataclasses import replace
from typing import Annotated, Any

from msgspec import Meta, Struct

from mlxctl.ir import CacheMode, CacheOptions, ContextOverflow, GenerationRequest
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.lora import MAX_STACKED_ADAPTERS, LoraChoice
from mlxctl.protocols.priority import Priority

_MAX_TTL_SECONDS = 365 * 24 * 3600

TtlSeconds = Annotated[float, Meta(ge=0, le=_MAX_TTL_SECONDS)]
SessionId = Annotated[str, Meta(min_length=1, max_length=256)]
CacheSalt = Annotated[str, Meta(min_length=1, max_length=256)]
AdapterNames = Annotated[str, Meta(min_length=1, max_length=1024)]


class ScaledAdapter(Struct):
    """One adapter of a request; the scale multiplies the adapter's own."""

    name: Annotated[str, Meta(min_length=1, max_length=128)]
    scale: Annotated[float, Meta(ge=-100, le=100)] = 1.0


ScaledAdapters = Annotated[list[ScaledAdapter], Meta(max_length=MAX_STACKED_ADAPTERS)]


class ExtensionFields(Struct, kw_only=True):
    """Base of the bodies that generate text; null means not set."""

    session_id: Annotated[
        SessionId | None,
        Meta(description="Name of the conversation in cache listings and explanations."),
    ] = None
    cache_mode: Annotated[
        CacheMode | None,
        Meta(
            description="`full` (default) reuses cached tokens and stores prompt and answer, `prefix` stores "
            "the prompt only, `off` neither reuses nor stores."
        ),
    ] = None
    cache_salt: Annotated[
        CacheSalt | None,
        Meta(description="Only requests of the same caller with the same salt reuse the tokens."),
    ] = None
    ttl: Annotated[
        TtlSeconds | None,
        Meta(
            description="Seconds that the tokens stay cached, unless another request keeps them for longer; "
            "0 stores nothing. Default: until they are evicted."
        ),
    ] = None
    adapter: Annotated[
        AdapterNames | None,
        Meta(
            description="Mounted LoRA adapter, `a+b` for several, `none` for none. Default: the model's name "
            "decides."
        ),
    ] = None
    lora: Annotated[
        ScaledAdapters | None, Meta(description="LoRA adapters with scales, in place of `adapter`.")
    ] = None
    priority: Annotated[
        Priority | None,
        Meta(description="As in vLLM, a lower value is served first; 0 is the default."),
    ] = None
    speculation: Annotated[
        bool | None, Meta(description="`false` decodes without drafts, which changes no token.")
    ] = None
    context_overflow: Annotated[
        ContextOverflow | None,
        Meta(
            description="For a prompt that exceeds the context: `error` (default), `drop_oldest` leaves out "
            "the oldest turns, `compact` first the details of earlier turns. Of a raw prompt both leave out "
            "the beginning."
        ),
    ] = None


def with_extensions(request: GenerationRequest, fields: ExtensionFields) -> GenerationRequest:
    """Return the request with the fields that a body sets.

    What it does not set stays. Raises InvalidRequest.
    """
    changes: dict[str, Any] = {
        "cache": _cache_options(request.cache, fields),
        "priority": fields.priority,
        "context_overflow": fields.context_overflow,
        "adapters": _adapter_choices(fields),
    }
    if fields.speculation is not None:
        changes["sampling"] = replace(request.sampling, speculation=fields.speculation)
    return replace(request, **{name: value for name, value in changes.items() if value is not None})


def _cache_options(options: CacheOptions, fields: ExtensionFields) -> CacheOptions:
    """Return the options of the body, whose `ttl` covers all tokens."""
    given: dict[str, Any] = {
        "mode": fields.cache_mode,
        "salt": fields.cache_salt,
        "session_id": fields.session_id,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if fields.ttl is not None:
        changes |= {"ttl_seconds": fields.ttl, "long_ttl": None}
    return replace(options, **changes)


def _adapter_choices(fields: ExtensionFields) -> tuple[LoraChoice, ...] | None:
    """Return the adapters that a body chooses.

    None if it sets neither field. Raises InvalidRequest.
    """
    adapter, lora = fields.adapter, fields.lora
    if adapter is not None and lora is not None:
        raise InvalidRequest("adapter and lora are both set; use one of them", param="adapter")
    if lora is not None:
        return tuple(LoraChoice(name=each.name, scale=each.scale) for each in lora)
    if adapter is None:
        return None
    return () if adapter == "none" else tuple(LoraChoice(name=name) for name in adapter.split("+"))

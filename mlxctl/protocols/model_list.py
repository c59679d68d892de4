"""The models endpoints' bodies: one object per model with the fields of both OpenAI's and Anthropic's clients, which ask the same
address and ignore what they do not know."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """What a caller may know of a served model. `created` is in unix seconds, `context_length` in tokens, `num_bytes` of weights.

    What is not known of a model is None, or its kind "unknown". `verdicts` are what probing found, by question, as "yes", "no" or
    "unknown"; a model that was never probed has none.
    """

    id: str
    created: int
    context_length: int | None
    supports_tools: bool
    supports_thinking: bool
    is_demo: bool = False
    kind: str = "unknown"
    family: str | None = None
    num_parameters: int | None = None
    quantization: str | None = None
    num_bytes: int | None = None
    state: str = "loaded"
    problem: str | None = None
    is_pinned: bool = False
    verdicts: Mapping[str, str] = field(default_factory=dict)


def encode_model(card: ModelCard) -> bytes:
    """Return the body for one model."""
    return msgspec.json.encode(_model_object(card))


def encode_model_list(cards: Sequence[ModelCard]) -> bytes:
    """Return the body for all models, as one complete page."""
    return msgspec.json.encode(
        {
            "object": "list",
            "data": [_model_object(card) for card in cards],
            "has_more": False,
            "first_id": cards[0].id if cards else None,
            "last_id": cards[-1].id if cards else None,
        }
    )


def _model_object(card: ModelCard) -> dict[str, object]:
    return {
        "id": card.id,
        "object": "model",
        "type": "model",
        "created": card.created,
        "created_at": datetime.fromtimestamp(card.created, UTC).isoformat().replace("+00:00", "Z"),
        "owned_by": "mlxctl",
        "display_name": card.id,
        "lifecycle": "active",
        "deprecated_at": None,
        "retires_at": None,
        "line": None,
        "max_input_tokens": card.context_length,
        "max_tokens": card.context_length,
        "max_model_len": card.context_length,
        "capabilities": _capabilities(card),
        "supports_tools": card.supports_tools,
        "is_demo": card.is_demo,
        "kind": card.kind,
        "family": card.family,
        "num_parameters": card.num_parameters,
        "quantization": card.quantization,
        "size_bytes": card.num_bytes,
        "state": card.state,
        "problem": card.problem,
        "pinned": card.is_pinned,
        "probed": dict(card.verdicts) or None,
    }


def _capabilities(card: ModelCard) -> dict[str, object]:
    """Return Anthropic's capability table; a client of that protocol needs each key, and this server has few of them."""
    no, thinks, yes = ({"supported": is_supported} for is_supported in (False, card.supports_thinking, True))
    return {
        "batch": no,
        "citations": no,
        "code_execution": no,
        "context_management": {"supported": False},
        "effort": {"supported": False, "low": no, "medium": no, "high": no, "xhigh": no, "max": no},
        "image_input": no,
        "pdf_input": no,
        "server_tools": {"supported": False, "code_execution": no, "web_search": no},
        "structured_outputs": no,
        "thinking": {
            "supported": card.supports_thinking,
            "types": {"adaptive": yes, "between_tools": yes, "disabled": yes, "enabled": thinks},
        },
    }

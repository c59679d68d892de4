"""Bodies of /v1/models, with the fields of OpenAI's and Anthropic's clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import Struct

from mlxctl.ir import AdapterVerdict, ProbeVerdict, SpeechRecipe
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.models import ModelState
from mlxctl.protocols.openai.lists import parse_limit

MAX_MODELS = 1000
"""The most models of one page; without a `limit` all of them are on one page."""


class Support(Struct, frozen=True):
    """Whether a feature is supported."""

    supported: bool


class EffortSupport(Struct, frozen=True):
    """Supported levels of effort."""

    supported: bool
    low: Support
    medium: Support
    high: Support
    xhigh: Support
    max: Support


class ServerToolSupport(Struct, frozen=True):
    """Whether tools that Anthropic's servers run are supported."""

    supported: bool
    code_execution: Support
    web_search: Support


class ThinkingTypes(Struct, frozen=True):
    """Supported types of thinking."""

    adaptive: Support
    between_tools: Support
    disabled: Support
    enabled: Support


class ThinkingSupport(Struct, frozen=True):
    """Whether the model thinks, and the types."""

    supported: bool
    types: ThinkingTypes


class ContextManagementSupport(Struct, frozen=True):
    """Supported edits of `context_management`."""

    supported: bool
    clear_thinking_20251015: Support
    clear_tool_uses_20250919: Support
    compact_20260112: Support


class Capabilities(Struct, frozen=True):
    """Anthropic's capability table; its clients need every key."""

    batch: Support
    citations: Support
    code_execution: Support
    context_management: ContextManagementSupport
    effort: EffortSupport
    image_input: Support
    pdf_input: Support
    server_tools: ServerToolSupport
    structured_outputs: Support
    thinking: ThinkingSupport


class SpeechFacts(Struct, frozen=True, kw_only=True):
    """What a speech model can do; `sample_rate` is in samples a second."""

    voices: list[str]
    default_voice: str | None
    languages: list[str]
    sample_rate: int
    clones_voices: bool
    follows_instructions: bool
    takes_speed: bool


class Model(Struct, frozen=True, kw_only=True):
    """A model, with the fields of both protocols and more.

    Unknown values are null.
    """

    id: str
    object: Literal["model"] = "model"
    type: Literal["model"] = "model"
    created: int
    created_at: str
    owned_by: str = "mlxctl"
    display_name: str
    lifecycle: Literal["active"] = "active"
    deprecated_at: None = None
    retires_at: None = None
    line: None = None
    max_input_tokens: int | None
    max_tokens: int | None
    max_model_len: int | None
    dimensions: int | None
    capabilities: Capabilities
    supports_tools: bool
    is_demo: bool
    from_library: bool
    kind: str
    family: str | None
    num_parameters: int | None
    quantization: str | None
    size_bytes: int | None
    is_moe: bool
    n_experts: int | None
    n_active_experts: int | None
    state: ModelState
    problem: str | None
    pinned: bool
    probed: dict[str, ProbeVerdict] | None
    adapter: AdapterVerdict | None
    speech: SpeechFacts | None
    root: str | None
    parent: str | None


class ModelList(Struct, frozen=True, kw_only=True):
    """Models; all of them, unless the request asks for a page."""

    object: Literal["list"] = "list"
    data: list[Model]
    has_more: bool
    first_id: str | None
    last_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """A served model's public data.

    `created` is in unix seconds, `context_length` in tokens, `num_bytes` of weights. `dimensions` is the
    length of an embedding model's vectors, `experts` how many a layer has and a token uses. Unknown values
    are None, an unknown kind is "unknown". `verdicts` are the results of probing by question; empty for a
    model that was not probed. `adapter` is the analysis of its chat template. `speech` is None for a model
    that speaks no text. `root` is the model's own name; an alias has another `id`. `parent` is the base model
    of a LoRA adapter. `from_library` marks a model that the server was not told to serve by name: with
    `--any-library-model` it offers all.
    """

    id: str
    created: int
    context_length: int | None
    supports_tools: bool
    supports_thinking: bool
    supports_images: bool = False
    supports_documents: bool = False
    adapter: AdapterVerdict | None = None
    dimensions: int | None = None
    is_demo: bool = False
    from_library: bool = False
    kind: str = "unknown"
    family: str | None = None
    num_parameters: int | None = None
    quantization: str | None = None
    num_bytes: int | None = None
    experts: tuple[int, int] | None = None
    state: ModelState = "loaded"
    problem: str | None = None
    is_pinned: bool = False
    verdicts: Mapping[str, ProbeVerdict] = field(default_factory=dict)
    speech: SpeechRecipe | None = None
    root: str | None = None
    parent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPage:
    """The requested page of the list, as at Anthropic.

    It has up to `limit` models after or before the named one.
    """

    limit: int | None = None
    after_id: str | None = None
    before_id: str | None = None

    @classmethod
    def read(cls, *, limit: str | None, after_id: str | None, before_id: str | None) -> "ModelPage":
        """Parse the query parameters. Raises InvalidRequest."""
        if after_id is not None and before_id is not None:
            raise InvalidRequest("before_id cannot be combined with after_id; send one", param="before_id")
        number = None if limit is None else parse_limit(limit, most=MAX_MODELS)
        return cls(limit=number, after_id=after_id, before_id=before_id)

    def cut(self, cards: Sequence[ModelCard]) -> tuple[Sequence[ModelCard], bool]:
        """Return the page's models and whether there are more.

        More in its direction. Raises InvalidRequest.
        """
        if self.before_id is not None:
            earlier = cards[: self._position("before_id", self.before_id, cards)]
            chosen = earlier if self.limit is None else earlier[-self.limit :]
            return chosen, len(chosen) < len(earlier)
        start = 0 if self.after_id is None else self._position("after_id", self.after_id, cards) + 1
        later = cards[start:]
        chosen = later[: self.limit]
        return chosen, len(chosen) < len(later)

    @staticmethod
    def _position(param: str, name: str, cards: Sequence[ModelCard]) -> int:
        for position, card in enumerate(cards):
            if card.id == name:
                return position
        raise InvalidRequest(f"{param} is {name!r}, which is not the id of a model in this list", param=param)


def encode_model(card: ModelCard) -> bytes:
    """Return the body for one model."""
    return msgspec.json.encode(_model_object(card))


def encode_model_list(cards: Sequence[ModelCard], page: ModelPage) -> bytes:
    """Return the body for a page of models. Raises InvalidRequest."""
    chosen, has_more = page.cut(cards)
    ends = (chosen[0].id, chosen[-1].id) if chosen else (None, None)
    return msgspec.json.encode(
        ModelList(
            data=[_model_object(card) for card in chosen],
            has_more=has_more,
            first_id=ends[0],
            last_id=ends[1],
        )
    )


def _model_object(card: ModelCard) -> Model:
    return Model(
        id=card.id,
        created=card.created,
        created_at=datetime.fromtimestamp(card.created, UTC).isoformat().replace("+00:00", "Z"),
        display_name=card.id,
        max_input_tokens=card.context_length,
        max_tokens=card.context_length,
        max_model_len=card.context_length,
        dimensions=card.dimensions,
        capabilities=_capabilities(card),
        supports_tools=card.supports_tools,
        is_demo=card.is_demo,
        from_library=card.from_library,
        kind=card.kind,
        family=card.family,
        num_parameters=card.num_parameters,
        quantization=card.quantization,
        size_bytes=card.num_bytes,
        is_moe=card.experts is not None,
        n_experts=card.experts[0] if card.experts else None,
        n_active_experts=card.experts[1] if card.experts else None,
        state=card.state,
        problem=card.problem,
        pinned=card.is_pinned,
        probed=dict(card.verdicts) or None,
        adapter=card.adapter,
        speech=_speech(card.speech) if card.speech else None,
        root=card.root,
        parent=card.parent,
    )


def _speech(recipe: SpeechRecipe) -> SpeechFacts:
    return SpeechFacts(
        voices=recipe.voices,
        default_voice=recipe.default_voice,
        languages=recipe.languages,
        sample_rate=recipe.sample_rate,
        clones_voices=recipe.clones_voices,
        follows_instructions=recipe.follows_instructions,
        takes_speed=recipe.takes_speed,
    )


def _capabilities(card: ModelCard) -> Capabilities:
    no, yes, thinks = (
        Support(supported=False),
        Support(supported=True),
        Support(supported=card.supports_thinking),
    )
    return Capabilities(
        batch=no,
        citations=no,
        code_execution=no,
        context_management=ContextManagementSupport(
            supported=True, clear_thinking_20251015=yes, clear_tool_uses_20250919=yes, compact_20260112=no
        ),
        effort=_effort(card.adapter.efforts if card.adapter else ()),
        image_input=Support(supported=card.supports_images),
        pdf_input=Support(supported=card.supports_documents),
        server_tools=ServerToolSupport(supported=False, code_execution=no, web_search=no),
        structured_outputs=Support(supported=card.adapter is not None and card.dimensions is None),
        thinking=ThinkingSupport(
            supported=card.supports_thinking,
            types=ThinkingTypes(adaptive=thinks, between_tools=thinks, disabled=thinks, enabled=thinks),
        ),
    )


def _effort(levels: Sequence[str]) -> EffortSupport:
    """Return the levels of the template.

    Others are mapped to the nearest one.
    """
    low, medium, high, xhigh, most = (
        Support(supported=level in levels) for level in ("low", "medium", "high", "xhigh", "max")
    )
    return EffortSupport(supported=bool(levels), low=low, medium=medium, high=high, xhigh=xhigh, max=most)

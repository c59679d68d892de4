"""Bodies of /v1/models, with the fields of OpenAI's and Anthropic's clients."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct, structs

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
    supports_vision: bool | None
    supports_multi_image: bool | None
    supports_video: bool | None
    supports_audio_input: bool | None
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
    cache_limits: str | None
    pinned: bool
    probed: dict[str, ProbeVerdict] | None
    adapter: AdapterVerdict | None
    speech: SpeechFacts | None
    root: str | None
    parent: str | None
    remote: str | None

    @classmethod
    def of(
        cls,
        name: str,
        *,
        created: int = 0,
        context_length: int | None = None,
        experts: tuple[int, int] | None = None,
        adapter: AdapterVerdict | None = None,
        dimensions: int | None = None,
        supports_thinking: bool = False,
        supports_images: bool = False,
        supports_documents: bool = False,
        **facts: Any,
    ) -> "Model":
        """Return a model.

        `facts` are further fields, null where they are not known. `created` is in unix seconds,
        `context_length` in tokens. `experts` are those of a layer, and those that a token uses. `adapter` is
        the analysis of its chat template, `dimensions` the length of an embedding model's vectors.

        `probed` has the results of probing by question, null for a model that was not probed. `root` is the
        model's own name, `parent` the base model of a LoRA adapter, `remote` the server of `[[remotes]]` that
        has it. `from_library` marks a model that no setting names. `cache_limits`
        says what a loaded model's caches are not used for.
        """
        known = _UNKNOWN | {
            "id": name,
            "created": created,
            "created_at": datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z"),
            "display_name": name,
            "max_input_tokens": context_length,
            "max_tokens": context_length,
            "max_model_len": context_length,
            "dimensions": dimensions,
            "capabilities": _capabilities(
                efforts=adapter.efforts if adapter else (),
                images=supports_images,
                documents=supports_documents,
                structured=adapter is not None and dimensions is None,
                thinking=supports_thinking,
            ),
            "is_moe": experts is not None,
            "n_experts": experts[0] if experts else None,
            "n_active_experts": experts[1] if experts else None,
            "adapter": adapter,
        }
        return cls(**known | facts)


_UNKNOWN: dict[str, Any] = {
    **{field.name: None for field in structs.fields(Model) if field.required},
    "supports_tools": False,
    "is_demo": False,
    "from_library": False,
    "kind": "unknown",
    "pinned": False,
}


class ModelList(Struct, frozen=True, kw_only=True):
    """Models; all of them, unless the request asks for a page."""

    object: Literal["list"] = "list"
    data: list[Model]
    has_more: bool
    first_id: str | None
    last_id: str | None


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

    def of(self, models: Sequence[Model]) -> ModelList:
        """Return the page of these models. Raises InvalidRequest."""
        chosen, has_more = self._cut(models)
        first, last = (chosen[0].id, chosen[-1].id) if chosen else (None, None)
        return ModelList(data=chosen, has_more=has_more, first_id=first, last_id=last)

    def _cut(self, models: Sequence[Model]) -> tuple[list[Model], bool]:
        """Return the page's models, and whether there are more in its direction."""
        if self.before_id is not None:
            earlier = models[: self._position("before_id", self.before_id, models)]
            chosen = earlier if self.limit is None else earlier[-self.limit :]
            return list(chosen), len(chosen) < len(earlier)
        start = 0 if self.after_id is None else self._position("after_id", self.after_id, models) + 1
        later = models[start:]
        chosen = later[: self.limit]
        return list(chosen), len(chosen) < len(later)

    @staticmethod
    def _position(param: str, name: str, models: Sequence[Model]) -> int:
        for position, model in enumerate(models):
            if model.id == name:
                return position
        raise InvalidRequest(f"{param} is {name!r}, which is not the id of a model in this list", param=param)


def speech_facts(recipe: SpeechRecipe) -> SpeechFacts:
    """Return what the list shows of a speech model."""
    return SpeechFacts(
        voices=recipe.voices,
        default_voice=recipe.default_voice,
        languages=recipe.languages,
        sample_rate=recipe.sample_rate,
        clones_voices=recipe.clones_voices,
        follows_instructions=recipe.follows_instructions,
        takes_speed=recipe.takes_speed,
    )


def _capabilities(
    *, efforts: Sequence[str], images: bool, documents: bool, structured: bool, thinking: bool
) -> Capabilities:
    no, yes, thinks = Support(supported=False), Support(supported=True), Support(supported=thinking)
    return Capabilities(
        batch=no,
        citations=no,
        code_execution=no,
        context_management=ContextManagementSupport(
            supported=True, clear_thinking_20251015=yes, clear_tool_uses_20250919=yes, compact_20260112=no
        ),
        effort=_effort(efforts),
        image_input=Support(supported=images),
        pdf_input=Support(supported=documents),
        server_tools=ServerToolSupport(supported=False, code_execution=no, web_search=no),
        structured_outputs=Support(supported=structured),
        thinking=ThinkingSupport(
            supported=thinking,
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

"""Model list of another server (`GET /v1/models`)."""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from mlxctl.inference.remote.server_answers import UNREADABLE
from mlxctl.ir.errors import ServerUnreachable

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
_Word = Annotated[str, msgspec.Meta(max_length=64)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
# Servers other than mlxctl list no kind.
_CHAT_KINDS = (None, "unknown", "text", "vision")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteModel:
    """A model of another server; implements `ModelInfo`.

    None is a property that the server does not list. `state` is `loaded` for one in memory. `number_format`
    is that of the weights: `4-bit`, or `16-bit float`. `voices` are those of a speech model.
    """

    name: str
    context_length: int | None = None
    supports_tools: bool | None = None
    supports_thinking: bool | None = None
    supports_images: bool | None = None
    supports_documents: bool | None = None
    is_demo: bool = False
    kind: str | None = None
    state: str | None = None
    num_parameters: int | None = None
    number_format: str | None = None
    voices: tuple[str, ...] = ()

    @property
    def can_chat(self) -> bool:
        """Whether it is no embedding, reranking or speech model."""
        return self.kind in _CHAT_KINDS

    @property
    def can_speak(self) -> bool:
        """Whether it is known to speak text."""
        return self.kind == "text-to-speech"


class _Supported(msgspec.Struct, frozen=True):
    supported: bool = False


class _ThinkingTypes(msgspec.Struct, frozen=True):
    enabled: _Supported = _Supported()


class _Thinking(msgspec.Struct, frozen=True):
    types: _ThinkingTypes = _ThinkingTypes()


class _Capabilities(msgspec.Struct, frozen=True):
    thinking: _Thinking | None = None
    image_input: _Supported | None = None
    pdf_input: _Supported | None = None


class _Speech(msgspec.Struct, frozen=True):
    voices: Annotated[list[_Name], msgspec.Meta(max_length=10_000)] = []


class _Card(msgspec.Struct, frozen=True):
    id: _Name
    max_model_len: _Number | None = None
    max_input_tokens: _Number | None = None
    supports_tools: bool | None = None
    capabilities: _Capabilities | None = None
    is_demo: bool = False
    kind: _Word | None = None
    state: _Word | None = None
    num_parameters: _Number | None = None
    quantization: _Word | None = None
    size_bytes: _Number | None = None
    speech: _Speech | None = None


class _Page(msgspec.Struct, frozen=True):
    data: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=10_000)]


def read_models(body: bytes, *, url: str) -> tuple[RemoteModel, ...]:
    """Return the models in the body of a model list.

    Of a card with fields of other types, only the name is used. Raises ServerUnreachable when the body is no
    list.
    """
    try:
        models = [_read_card(bytes(card)) for card in msgspec.json.decode(body, type=_Page).data]
    except UNREADABLE:
        raise no_model_list(url) from None
    # A name that is listed twice is one choice.
    return tuple({model.name: model for model in models}.values())


def no_model_list(url: str) -> ServerUnreachable:
    """Return the error for a URL without a list of models."""
    return ServerUnreachable(
        url, "what does answer returns no list of models, as an OpenAI-compatible server would"
    )


def _read_card(body: bytes) -> RemoteModel:
    try:
        card = msgspec.json.decode(body, type=_Card)
    except msgspec.ValidationError:
        return RemoteModel(name=msgspec.json.decode(body, type=_Named).id)
    capabilities = card.capabilities or _Capabilities()
    thinking, image_input, pdf_input = (
        capabilities.thinking,
        capabilities.image_input,
        capabilities.pdf_input,
    )
    return RemoteModel(
        name=card.id,
        context_length=card.max_model_len or card.max_input_tokens,
        supports_tools=card.supports_tools,
        supports_thinking=thinking.types.enabled.supported if thinking else None,
        supports_images=image_input.supported if image_input else None,
        supports_documents=pdf_input.supported if pdf_input else None,
        is_demo=card.is_demo,
        kind=card.kind,
        state=card.state,
        num_parameters=card.num_parameters,
        number_format=card.quantization or _float_format(card),
        voices=tuple(card.speech.voices) if card.speech else (),
    )


def _float_format(card: _Card) -> str | None:
    if not card.num_parameters or not card.size_bytes:
        return None
    return f"{8 * card.size_bytes / card.num_parameters:.0f}-bit float"


class _Named(msgspec.Struct, frozen=True):
    id: _Name

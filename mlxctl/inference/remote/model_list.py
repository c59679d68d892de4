"""Model list of another server (`GET /v1/models`)."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from mlxctl.inference.remote.server_answers import UNREADABLE
from mlxctl.ir.errors import NoModelList

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
_Word = Annotated[str, msgspec.Meta(max_length=64)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
# Servers other than mlxctl list no kind.
_CHAT_KINDS = (None, "unknown", "text", "vision")


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
    voices: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=10_000)] = ()


class RemoteModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model as a server lists it; implements `ModelInfo`.

    None is a property that the server does not list. `root` is the name of what an alias or an adapter of
    the model `parent` is. `remote` is another server that has it. `probed` has the verdicts of probing by
    question.
    """

    name: _Name = msgspec.field(name="id")
    root: str | None = None
    parent: str | None = None
    kind: _Word | None = None
    state: _Word | None = None
    problem: str | None = None
    pinned: bool = False
    is_demo: bool = False
    from_library: bool = False
    max_model_len: _Number | None = None
    max_input_tokens: _Number | None = None
    supports_tools: bool | None = None
    probed: Mapping[str, str] | None = None
    capabilities: _Capabilities | None = None
    num_parameters: _Number | None = None
    quantization: _Word | None = None
    size_bytes: _Number | None = None
    speech: _Speech | None = None
    remote: _Name | None = None

    @property
    def context_length(self) -> int | None:
        """Most tokens of prompt and answer together."""
        return self.max_model_len or self.max_input_tokens

    @property
    def supports_thinking(self) -> bool | None:
        """Whether it can be told to think."""
        thinking = self.capabilities and self.capabilities.thinking
        return thinking.types.enabled.supported if thinking else None

    @property
    def supports_images(self) -> bool | None:
        """Whether it accepts images."""
        images = self.capabilities and self.capabilities.image_input
        return images.supported if images else None

    @property
    def supports_documents(self) -> bool | None:
        """Whether the server reads PDF files for it."""
        documents = self.capabilities and self.capabilities.pdf_input
        return documents.supported if documents else None

    @property
    def alias_of(self) -> str | None:
        """The model that this is another name of.

        None for a model's own name, and for an adapter.
        """
        return None if self.parent or self.root == self.name else self.root

    @property
    def can_chat(self) -> bool:
        """Whether it is no embedding, reranking or speech model."""
        return self.kind in _CHAT_KINDS

    @property
    def can_speak(self) -> bool:
        """Whether it is known to speak text."""
        return self.kind == "text-to-speech"

    @property
    def can_transcribe(self) -> bool:
        """Whether it is known to transcribe audio."""
        return self.kind == "speech-to-text"

    @property
    def voices(self) -> tuple[str, ...]:
        """The voices of a speech model."""
        return self.speech.voices if self.speech else ()

    @property
    def is_loaded(self) -> bool:
        """Whether it is in memory; assumed where a server lists no state."""
        return self.state in (None, "loaded")

    @property
    def number_format(self) -> str | None:
        """The format of the weights: `4-bit`, or `16-bit float`."""
        if self.quantization or not self.num_parameters or not self.size_bytes:
            return self.quantization or None
        return f"{8 * self.size_bytes / self.num_parameters:.0f}-bit float"


class _Page(msgspec.Struct, frozen=True):
    data: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=10_000)]


def read_models(body: bytes, *, url: str) -> tuple[RemoteModel, ...]:
    """Return the models in the body of a model list.

    Of a card with fields of other types, only the name is used. Raises NoModelList when the body is no list.
    """
    try:
        models = [_read_card(bytes(card)) for card in msgspec.json.decode(body, type=_Page).data]
    except UNREADABLE:
        raise NoModelList(url) from None
    # A name that is listed twice is one choice.
    return tuple({model.name: model for model in models}.values())


def _read_card(body: bytes) -> RemoteModel:
    try:
        return msgspec.json.decode(body, type=RemoteModel)
    except msgspec.ValidationError:
        return RemoteModel(name=msgspec.json.decode(body, type=_Named).id)


class _Named(msgspec.Struct, frozen=True):
    id: _Name

"""Interface of a wire format: parsed bodies, shapes and encoders of answers.

Knows no HTTP framework and no model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mlxctl.ir import (
    EmbeddingRequest,
    EmbeddingResult,
    GenerationRequest,
    SamplingParams,
    StoredItem,
    StreamEvent,
    TextResult,
    Usage,
)
from mlxctl.ir.errors import MlxctlError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyShape:
    """How the answer to one request is written, as its body decides.

    Each protocol adds its own fields. `model` is the name in the request. `dropped_tools` are the types of
    offered tools that only their provider can run: they are dropped and logged. A request that `loads_only`
    has no content: it loads or unloads its model and generates nothing.
    """

    model: str
    dropped_tools: tuple[str, ...] = ()
    loads_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What a request continues: it is parsed again with what is stored.

    An earlier answer with its conversation, and single items. `num_new_bytes` is the stored size of the
    request's own messages.
    """

    stream: bool
    previous_id: str | None = None
    item_ids: tuple[str, ...] = ()
    num_new_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredContext:
    """What the store has of a reference.

    `conversation` is None if the earlier answer is not stored; `items` lacks unknown ones.
    """

    conversation: tuple[StoredItem, ...] | None = None
    items: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        """Size of all items in bytes."""
        return sum(len(item.body) for item in self.conversation or ()) + sum(map(len, self.items.values()))


Parsed = tuple[GenerationRequest | Reference, ReplyShape]
"""A parsed body: the request, or what it continues, and the shape of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """A model as answers describe it; `context_length` is in tokens."""

    architecture: str = ""
    quantization: str | None = None
    context_length: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerStart:
    """What is known when the generation starts.

    `model` is the name of the model that answers, as answers have it; `sampling` has the final parameters.
    `described` is the model, for protocols whose answers describe it.
    """

    model: str
    sampling: SamplingParams
    described: ModelSummary = ModelSummary()


class VectorShape(Protocol):
    """How an answer of vectors or scores is written. Frozen."""

    def encode(self, result: EmbeddingResult) -> bytes:
        """Return the answer as JSON. Raises InvalidRequest."""


ParsedTexts = tuple[EmbeddingRequest, VectorShape]
"""A parsed body: the texts, and the shape of the answer. Without a model its name is ""."""


class Encoder(Protocol):
    """Writes the answers to one request in the shape of a protocol.

    `start` comes first, then `whole` or a stream. A stream is `begin`, `on_event` for each event up to and
    including Finished, `finish`; `on_error` replaces the rest. With several choices, `number` is the choice
    of an event, and `finish` follows the last Finished. All bytes are complete server-sent events (UTF-8),
    b"" where the protocol has none. Not thread-safe.
    """

    @property
    def begins_with_usage(self) -> bool:
        """Whether the stream starts with the prompt's token counts.

        It then waits until they are known.
        """

    def start(self, start: AnswerStart) -> None:
        """Take what is known when the generation starts."""

    def begin(self, prompt: Usage) -> bytes:
        """Return the start of the stream.

        `prompt` has the counts of the prompt only.
        """

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:
        """Return the bytes of an event of choice `number`."""

    def finish(self) -> bytes:
        """Return the end of the stream."""

    def on_error(self, error: MlxctlError, *, request_id: str | None = None) -> bytes:
        """Return the end of a failed stream.

        Valid at any moment, also before `start`.
        """

    def ping(self) -> bytes:
        """Return a keep-alive; valid at any moment, also before `start`."""

    def whole(self, *results: TextResult) -> bytes:
        """Return all choices as one JSON body."""

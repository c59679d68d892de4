"""The last requests as the model saw them, so that a later miss can be explained. Bounded; event-loop thread only."""

import time
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from mlxctl.engine import RowUpdate
from mlxctl.ir import GenerationRequest, ImagePart, Message, Part, TextPart, ToolResultPart
from mlxctl.prefix_cache.chunks import Salt

MAX_REQUESTS = 64
MAX_BYTES = 64 << 20


@dataclass(slots=True, eq=False, kw_only=True)
class SeenRequest:
    """One prompt with its answer. `num_known` and `gone` are what the engine said of it (see RowUpdate).

    `request` goes without the bytes of its images; `salts` are what these make of its tokens. `model` is the name under which the
    engine has it, whatever the request called it. `engine_life` counts the engine's starts: what an earlier life had in memory is
    lost.
    """

    number: int
    at: float
    model: str
    request: GenerationRequest
    prompt_ids: "array[int]"
    salts: tuple[Salt, ...] = ()
    engine_life: int
    answer_ids: Sequence[int] = ()
    num_cached: int = 0
    num_known: int = 0
    gone: str | None = None

    @property
    def token_ids(self) -> "array[int]":
        """Prompt and answer."""
        return self.prompt_ids + array("I", self.answer_ids)

    @property
    def num_bytes(self) -> int:
        """About what remembering it takes."""
        text = sum(len(message.text) + len(message.thinking) for message in self.request.messages)
        return 4 * (len(self.prompt_ids) + len(self.answer_ids)) + 2 * text + 1000

    def found(self, update: RowUpdate) -> None:
        """Take what the engine said of the prompt."""
        self.num_cached, self.num_known, self.gone = update.num_cached, update.num_known, update.gone


def without_image_bytes(request: GenerationRequest) -> GenerationRequest:
    """Return the request with a digest of each image in place of the image: enough to tell equal ones."""
    if not any(message.num_images for message in request.messages):
        return request
    return replace(request, messages=tuple(map(_without_bytes, request.messages)))


def _without_bytes(message: Message) -> Message:
    return replace(message, parts=tuple(map(_digested, message.parts)))


def _digested(part: Part) -> Part:
    if isinstance(part, ToolResultPart):
        return replace(part, content=tuple(_digest_image(inner) for inner in part.content))
    return _digest_image(part) if isinstance(part, ImagePart) else part


def _digest_image(part: TextPart | ImagePart) -> TextPart | ImagePart:
    return replace(part, data=blake2b(part.data).digest()) if isinstance(part, ImagePart) else part


class SeenRequests:
    """A ring of them, the newest last."""

    def __init__(self, *, max_requests: int = MAX_REQUESTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._max_requests = max_requests
        self._seen: deque[SeenRequest] = deque()
        self._num_begun = 0

    def begin(
        self, request: GenerationRequest, prompt_ids: Sequence[int], salts: Sequence[Salt], *, model: str, engine_life: int
    ) -> SeenRequest:
        """Remember a request that is about to be submitted to `model`; older ones make way."""
        self._num_begun += 1
        seen = SeenRequest(
            number=self._num_begun,
            at=time.time(),
            model=model,
            request=without_image_bytes(request),
            prompt_ids=array("I", prompt_ids),
            salts=tuple(salts),
            engine_life=engine_life,
        )
        self._seen.append(seen)
        while len(self._seen) > self._max_requests or (len(self._seen) > 1 and self._num_bytes() > self._max_bytes):
            self._seen.popleft()
        return seen

    def last(self, num: int) -> list[SeenRequest]:
        """Return the newest, the newest first."""
        return list(self._seen)[::-1][:num]

    def before(self, number: int) -> list[SeenRequest]:
        """Return those that came before the request with this number, oldest first."""
        return [seen for seen in self._seen if seen.number < number]

    @property
    def next_number(self) -> int:
        """The number that the next request will have."""
        return self._num_begun + 1

    def _num_bytes(self) -> int:
        return sum(seen.num_bytes for seen in self._seen)

"""The last requests as the model saw them, so that a later miss can be explained.

Bounded; event-loop thread only.
"""

import time
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from mlxctl.engine import RowUpdate
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir import GenerationRequest
from mlxctl.ir.tokens import Salt

MAX_REQUESTS = 64
MAX_BYTES = 64 << 20


@dataclass(slots=True, eq=False, kw_only=True)
class SeenRequest:
    """One prompt with its answer. `num_known` and `gone` are what the engine said of it (see RowUpdate).

    `packed` is the request without the bytes of its images, `request` the same to be read: that takes long
    for a long one. `salts` are what the images make of its tokens. `model` is the name under which the engine
    has it, whatever the request called it. `engine_life` counts the engine's starts: what an earlier life had
    in memory is lost.
    """

    number: int
    at: float
    model: str
    packed: PackedRequest
    prompt_ids: "array[int]"
    salts: tuple[Salt, ...] = ()
    engine_life: int
    answer_ids: Sequence[int] = ()
    num_cached: int = 0
    num_known: int = 0
    gone: str | None = None
    _request: GenerationRequest | None = field(default=None, init=False, repr=False)

    @property
    def request(self) -> GenerationRequest:
        """What was asked."""
        if self._request is None:
            self._request = self.packed.unpack()
        return self._request

    @property
    def token_ids(self) -> "array[int]":
        """Prompt and answer."""
        return self.prompt_ids + array("I", self.answer_ids)

    @property
    def num_bytes(self) -> int:
        """About what remembering it takes."""
        return 4 * (len(self.prompt_ids) + len(self.answer_ids)) + self.packed.num_bytes + 1000

    def found(self, update: RowUpdate) -> None:
        """Take what the engine said of the prompt."""
        self.num_cached, self.num_known, self.gone = update.num_cached, update.num_known, update.gone


class SeenRequests:
    """A ring of them, the newest last."""

    def __init__(self, *, max_requests: int = MAX_REQUESTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._max_requests = max_requests
        self._seen: deque[SeenRequest] = deque()
        self._num_begun = 0

    def begin(
        self,
        packed: PackedRequest,
        prompt_ids: Sequence[int],
        salts: Sequence[Salt],
        *,
        model: str,
        engine_life: int,
    ) -> SeenRequest:
        """Remember a request that is about to be submitted to `model`; older ones make way."""
        self._num_begun += 1
        seen = SeenRequest(
            number=self._num_begun,
            at=time.time(),
            model=model,
            packed=packed,
            prompt_ids=array("I", prompt_ids),
            salts=tuple(salts),
            engine_life=engine_life,
        )
        self._seen.append(seen)
        while len(self._seen) > self._max_requests or (
            len(self._seen) > 1 and self._num_bytes() > self._max_bytes
        ):
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

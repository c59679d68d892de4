"""The last prompts as the model got them, to explain later misses.

Bounded. Event-loop thread only.
"""

import time
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from mlxctl.formats.adapters.prepared import NormalizedRequest
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir import GenerationRequest
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.cache_usage import NO_CACHE_USAGE, CacheUsage
from mlxctl.ir.tokens import Salt

MAX_REQUESTS = 64
MAX_BYTES = 64 << 20


@dataclass(slots=True, eq=False, kw_only=True)
class RecordedPrompt:
    """A prompt with its answer and its reported cache usage.

    `packed` is the request without image bytes; `request` unpickles it, which is slow for a long one. Of a
    request with cache_mode `off` neither text nor tokens are recorded. `salts` separate the tokens of images.
    `model` is the own name of the model. `num_engine_restarts` identifies the engine process, whose memory is
    lost with it.
    """

    number: int
    at: float
    model: str
    packed: PackedRequest
    num_prompt_tokens: int
    prompt_ids: "array[int]"
    salts: tuple[Salt, ...] = ()
    num_engine_restarts: int
    answer_ids: Sequence[int] = ()
    cache_usage: CacheUsage = NO_CACHE_USAGE
    content_bytes: int = field(init=False)
    """Approximate memory without the answer."""
    _request: NormalizedRequest | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.content_bytes = 4 * len(self.prompt_ids) + self.packed.num_bytes + 1000

    @property
    def request(self) -> NormalizedRequest:
        """The recorded prompt as a request; unpacked once."""
        if self._request is None:
            self._request = NormalizedRequest(self.packed.unpack())
        return self._request

    @property
    def is_off(self) -> bool:
        """Whether the request has cache_mode `off`, and is not compared."""
        return self.packed.head.cache.mode == "off"

    @property
    def token_ids(self) -> "array[int]":
        """Ids of prompt and answer."""
        return self.prompt_ids + array("I", self.answer_ids)

    @property
    def num_bytes(self) -> int:
        """Approximate memory of the record."""
        return self.content_bytes + 4 * len(self.answer_ids)


class RecentPrompts:
    """Ring of prompts, the newest last."""

    def __init__(self, *, max_requests: int = MAX_REQUESTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._max_requests = max_requests
        self._prompts: deque[RecordedPrompt] = deque()
        self._num_recorded = 0

    def record(
        self,
        packed: PackedRequest,
        prompt_ids: Sequence[int],
        salts: Sequence[Salt],
        *,
        model: str,
        num_engine_restarts: int,
    ) -> RecordedPrompt:
        """Record a request that is about to be submitted.

        The oldest are dropped.
        """
        self._num_recorded += 1
        num_prompt_tokens = len(prompt_ids)
        if packed.head.cache.mode == "off":
            packed, prompt_ids, salts = _without_content(packed), (), ()
        recorded = RecordedPrompt(
            number=self._num_recorded,
            at=time.time(),
            model=model,
            packed=packed,
            num_prompt_tokens=num_prompt_tokens,
            prompt_ids=array("I", prompt_ids),
            salts=tuple(salts),
            num_engine_restarts=num_engine_restarts,
        )
        self._prompts.append(recorded)
        while len(self._prompts) > self._max_requests or (
            len(self._prompts) > 1 and self._num_bytes() > self._max_bytes
        ):
            self._prompts.popleft()
        return recorded

    def last(self, num: int, allowed: AllowedModels) -> list[RecordedPrompt]:
        """Return the newest prompts, newest first."""
        return [recorded for recorded in reversed(self._prompts) if recorded.model in allowed][:num]

    def before(self, number: int, allowed: AllowedModels) -> list[RecordedPrompt]:
        """Return the prompts before the one with this number, oldest first."""
        return [each for each in self._prompts if each.number < number and each.model in allowed]

    @property
    def next_number(self) -> int:
        """Number of the next request."""
        return self._num_recorded + 1

    def _num_bytes(self) -> int:
        # PERF: at every request, over all prompts.
        return sum([each.content_bytes + 4 * len(each.answer_ids) for each in self._prompts])


def _without_content(packed: PackedRequest) -> PackedRequest:
    return PackedRequest.of(GenerationRequest(model=packed.head.model, cache=packed.head.cache))

"""Sequence: tokens, counters and state of one request in the engine. Pure."""

from array import array
from bisect import insort
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from mlxctl.engine.constraints import TokenConstraint
from mlxctl.engine.scheduling.multimodal_positions import shift_at
from mlxctl.engine.wire.commands import Submit
from mlxctl.ir import CacheMode, ProcessedImage, SamplingParams
from mlxctl.ir.cache_usage import NO_CACHE_USAGE, CacheUsage
from mlxctl.ir.lora import LoraChoice
from mlxctl.ir.tokens import Salt, Tokens, pack, prompt_salts
from mlxctl.prefix_cache.policy import UNLIMITED_LIFETIME, Lifetime

OUTPUT_RESERVE_TOKENS = 256
"""Cache room for the first output tokens, which then need no new copy."""
_NEXT_TURN_RESERVE_TOKENS = 1024
_MAX_LAST_PASSES = 3


def cache_capacity(num_prompt_tokens: int) -> int:
    """Return the cache capacity of a prompt in tokens.

    It has room for the first output tokens and, after a long prompt, for the next turn.
    """
    return num_prompt_tokens + OUTPUT_RESERVE_TOKENS + min(num_prompt_tokens // 8, _NEXT_TURN_RESERVE_TOKENS)


class SequenceState(Enum):
    """State of a sequence.

    It is restoring while cached records of its prompt are read from disk; prefill comes after that.
    """

    WAITING = "waiting"
    RESTORING = "restoring"
    PREFILLING = "prefilling"
    DECODING = "decoding"
    FINISHED = "finished"


@dataclass(slots=True, eq=False, kw_only=True)
class Sequence:
    """A prompt and its output tokens. Owned by the MLX thread.

    `num_computed_tokens` prompt tokens are in the cache, of which `num_cached_tokens` were restored; until
    then, `expected_cached_tokens` is an estimate of them. The last prompt token is never prefilled: it is the
    first input of decoding, so prefill needs no logits. A pass over `num_pass_tokens` is unfinished, after
    `pass_seconds` of work; `last_passes` have tokens, seconds and context of the last ones that are not.
    `num_overtaking_tokens` of other prompts may be computed before its next pass.
    `num_sampled_tokens` counts tokens of which sampling has started; at most one of them is in flight and not
    yet in `output_token_ids`. Prefill pauses at `checkpoint_positions`. `producer` is a sequence that is
    computing the first `shared_length` tokens of the prompt. `memory_short_since` is when memory alone began
    to keep it waiting. `salts` are those of the client's cache namespace and of the images. `left_queue_at`
    is the time of its first batch, `restored_at` that of the first restore of its cached prefix.

    A preempted sequence waits again: its first `num_resumed_tokens` output tokens are then the end of
    `prompt_token_ids`. `admitted_priority` is its priority value after aging when it got its place;
    `num_slice_tokens` counts the output tokens since then. With `has_place` another one was preempted for it.
    With `resumes_first` it continues before new sequences of its caller and priority. While `is_paused` it
    gets no place.
    """

    sequence_id: int
    model: str
    prompt_token_ids: Tokens
    sampling: SamplingParams
    stop_token_ids: frozenset[int]
    max_tokens: int
    request_id: str = ""
    priority: int = 0
    fairness_key: str = ""
    cache_mode: CacheMode = "full"
    lifetime: Lifetime = UNLIMITED_LIFETIME
    cache_usage: CacheUsage = NO_CACHE_USAGE
    arrived_at: float = 0.0
    served_at: float = 0.0
    reported_at: float = -inf
    memory_short_since: float | None = None
    left_queue_at: float | None = None
    restored_at: float | None = None
    vision_seconds: float | None = None
    state: SequenceState = SequenceState.WAITING
    expected_cached_tokens: int = 0
    num_cached_tokens: int = 0
    num_computed_tokens: int = 0
    num_pass_tokens: int = 0
    pass_seconds: float = 0.0
    last_passes: deque[tuple[int, float, int]] = field(default_factory=lambda: deque(maxlen=_MAX_LAST_PASSES))
    num_overtaking_tokens: int = 0
    num_sampled_tokens: int = 0
    output_token_ids: list[int] = field(default_factory=list)
    checkpoint_positions: list[int] = field(default_factory=list)
    producer: "Sequence | None" = None
    shared_length: int = 0
    needs_restore: bool = True
    constraint: TokenConstraint | None = None
    images: tuple[ProcessedImage, ...] = ()
    salts: tuple[Salt, ...] = ()
    scores_prompt: bool = False
    adapters: tuple[LoraChoice, ...] = ()
    num_resumed_tokens: int = 0
    num_slice_tokens: int = 0
    admitted_priority: int = 0
    has_place: bool = False
    resumes_first: bool = False
    is_paused: bool = False

    @classmethod
    def from_submit(
        cls, command: Submit, *, now: float, constraint: TokenConstraint | None = None
    ) -> "Sequence":
        """Return the waiting sequence of a command, with its compiled `constraint`."""
        return cls(
            sequence_id=command.sequence_id,
            model=command.model,
            prompt_token_ids=array("I", command.prompt_token_ids),
            sampling=command.sampling,
            stop_token_ids=frozenset(command.stop_token_ids),
            max_tokens=command.max_tokens,
            request_id=command.request_id,
            priority=command.priority,
            fairness_key=command.fairness_key,
            # The prefix cache stores no prompt logprobs.
            cache_mode="off" if command.scores_prompt else command.cache_mode,
            lifetime=command.lifetime,
            arrived_at=now,
            served_at=now,
            constraint=constraint,
            images=tuple(command.images),
            salts=prompt_salts(command.cache_namespace, command.images),
            scores_prompt=command.scores_prompt,
            adapters=command.adapters,
        )

    @property
    def stores_prefix(self) -> bool:
        """Whether the prefix cache stores anything of it."""
        return self.cache_mode != "off" and not self.lifetime.is_zero

    @property
    def num_prompt_tokens(self) -> int:
        """Length of the prompt, with the output of a preempted sequence."""
        return len(self.prompt_token_ids)

    @property
    def num_client_tokens(self) -> int:
        """Length of the prompt as the client sent it."""
        return len(self.prompt_token_ids) - self.num_resumed_tokens

    @property
    def was_preempted(self) -> bool:
        """Whether its prompt ends with output tokens."""
        return self.num_resumed_tokens > 0

    @property
    def num_tokens_to_prefill(self) -> int:
        """Prompt tokens left to compute before decoding."""
        return self.num_prompt_tokens - 1 - self.num_computed_tokens

    @property
    def num_reusable_tokens(self) -> int:
        """Prompt tokens computed here or, to be restored, elsewhere."""
        if not self.needs_restore:
            return self.num_computed_tokens
        of_producer = min(self.shared_length, self.producer.num_computed_tokens) if self.producer else 0
        return max(self.num_computed_tokens, self.expected_cached_tokens, of_producer)

    @property
    def num_uncomputed_tokens(self) -> int:
        """Prompt tokens that no sequence has computed, except the last."""
        return self.num_prompt_tokens - 1 - self.num_reusable_tokens

    @property
    def remaining_checkpoints(self) -> list[int]:
        """Checkpoint positions ahead, ascending, and then the end of prefill."""
        end = self.num_prompt_tokens - 1
        return [
            position for position in self.checkpoint_positions if self.num_computed_tokens < position < end
        ] + [end]

    @property
    def num_tokens_to_checkpoint(self) -> int:
        """Prompt tokens left to compute before the next checkpoint or decoding."""
        return self.remaining_checkpoints[0] - self.num_computed_tokens

    def slice_tokens(self, quota: int) -> int:
        """Return about `quota` tokens to compute next, up to the next checkpoint.

        An image that has to be computed whole is not split.
        """
        start = self.num_computed_tokens
        end = start + min(self.num_tokens_to_checkpoint, quota)
        for image in self.images:
            if image.is_whole and image.start < end < image.end:
                end = image.start if image.start > start else image.end
        return end - start

    def encodes_image(self, num_tokens: int) -> bool:
        """Whether prefill of the next `num_tokens` runs the vision encoder.

        It does for an image that starts there, or whose first tokens were restored.
        """
        start, end = self.num_computed_tokens, self.num_computed_tokens + num_tokens
        first = 0 if start == self.num_cached_tokens else start
        return any(first <= image.start < end and start < image.end for image in self.images)

    @property
    def position_shift(self) -> int:
        """Position minus index of a token after all images of the prompt."""
        return shift_at(self.images, self.num_prompt_tokens)

    @property
    def waits_for_producer(self) -> bool:
        """Whether another sequence is still computing the shared prefix."""
        producer = self.producer
        return (
            producer is not None
            and not producer.is_finished
            and not producer.was_preempted
            and producer.num_computed_tokens < self.shared_length
        )

    def wait_for(self, producer: "Sequence", shared_length: int) -> None:
        """Wait for `producer` to compute the shared prefix and store it.

        The producer gets a checkpoint at its end and at least this sequence's priority.
        """
        self.producer, self.shared_length = producer, shared_length
        producer.priority = min(producer.priority, self.priority)
        if shared_length not in producer.checkpoint_positions:
            insort(producer.checkpoint_positions, shared_length)

    @property
    def prefills_alone(self) -> bool:
        """Whether prefill of the prompt cannot be batched with others."""
        return bool(self.images) or self.scores_prompt or not self.max_tokens or self.has_unfinished_pass

    @property
    def has_unfinished_pass(self) -> bool:
        """Whether a pass was interrupted for other rows."""
        return self.num_pass_tokens > 0

    @property
    def has_begun_prefill(self) -> bool:
        """Whether a pass over the prompt has begun."""
        return self.num_computed_tokens > self.num_cached_tokens or self.has_unfinished_pass

    @property
    def prefills_in_turns(self) -> bool:
        """Whether a pass can be interrupted between two layers.

        Prompt log-probabilities need the logits of every piece at once.
        """
        return not self.scores_prompt

    @property
    def length(self) -> int:
        """Tokens in the cache after the step in flight."""
        return self.num_computed_tokens + self.num_sampled_tokens - self.num_resumed_tokens

    def tokens_in_cache(self, num_tokens: int) -> Tokens:
        """Return the first tokens of prompt and output together."""
        output = self.output_token_ids[self.num_resumed_tokens :]
        return self.prompt_token_ids + pack(output[: max(0, num_tokens - self.num_prompt_tokens)])

    def preempt(self, *, now: float) -> None:
        """Make a decoding sequence wait again; it keeps its output.

        It has no token in flight.
        """
        self.prompt_token_ids = self.tokens_in_cache(self.num_client_tokens + len(self.output_token_ids))
        self.num_resumed_tokens = len(self.output_token_ids)
        self.num_computed_tokens = self.num_cached_tokens = 0
        self.expected_cached_tokens = self.num_prompt_tokens - 1
        self.checkpoint_positions = []
        self.producer, self.shared_length = None, 0
        self.needs_restore = True
        # The prompt's log-probabilities were reported with its prefill.
        self.scores_prompt = False
        self.served_at = now
        self.state = SequenceState.WAITING

    @property
    def has_token_in_flight(self) -> bool:
        """Whether a sampled token has not been read back yet."""
        return self.num_sampled_tokens > len(self.output_token_ids)

    @property
    def has_first_token_in_flight(self) -> bool:
        """Whether the first token has been sampled and not read back yet."""
        return self.has_token_in_flight and not self.output_token_ids

    @property
    def is_exhausted(self) -> bool:
        """Whether sampling of the last allowed token has started."""
        return self.num_sampled_tokens >= self.max_tokens

    @property
    def is_finished(self) -> bool:
        """Whether the sequence has ended."""
        return self.state is SequenceState.FINISHED

"""Sequence: tokens and state of one request in the engine. Pure."""

from array import array
from dataclasses import dataclass, field
from enum import Enum

from mlxctl.engine.constraints import TokenConstraint
from mlxctl.engine.scheduling.multimodal_positions import shift_at
from mlxctl.engine.scheduling.prefill_progress import PrefillProgress
from mlxctl.engine.scheduling.prefill_statistics import PrefillStatistics
from mlxctl.engine.scheduling.standing import Standing
from mlxctl.engine.wire.commands import Submit
from mlxctl.ir import CacheMode, ProcessedImage, SamplingParams
from mlxctl.ir.lora import LoraChoice
from mlxctl.ir.tokens import Salt, Tokens, pack, prompt_salts
from mlxctl.prefix_cache.policy import UNLIMITED_LIFETIME, Lifetime


class SequenceState(Enum):
    """State of a sequence.

    It is restoring while cached records of its prompt are read from disk; prefill comes after that.
    """

    WAITING = "waiting"
    RESTORING = "restoring"
    PREFILLING = "prefilling"
    DECODING = "decoding"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """First `length` tokens of a prompt, which `producer` computes as well."""

    producer: "Sequence"
    length: int

    @property
    def is_awaited(self) -> bool:
        """Whether the producer is still computing it."""
        producer = self.producer
        return (
            not producer.is_finished
            and not producer.was_preempted
            and producer.prefill.num_computed_tokens < self.length
        )


@dataclass(slots=True, eq=False)
class UnfinishedPass:
    """A prefill pass that was interrupted between two of its layers.

    It computes the next `num_tokens` of one prompt, or, with 0, the rest of several. Its turns took `seconds`
    so far.
    """

    prompts: "tuple[Sequence, ...]"
    num_tokens: int
    seconds: float = 0.0


@dataclass(slots=True, eq=False, kw_only=True)
class Sequence:
    """A prompt and its output tokens. Owned by the MLX thread.

    The fields up to `arrived_at` are those of the request. `salts` are those of the client's cache namespace
    and of the images. `priority` is raised by sequences that wait for a shared prefix.

    `prefill`, `standing` and `statistics` are written by their own methods, `state` by ModelQueue,
    `output_token_ids` and `unfinished_pass`, which the prompts of a pass share, by ResultProcessor.
    ModelQueue ends the latter when a prompt leaves. `num_sampled_tokens`, written by the decode batch, counts
    tokens of which sampling has started; at most one of them is in flight and not yet in `output_token_ids`.

    A preempted sequence waits again: its first `num_resumed_tokens` output tokens are then the end of
    `prompt_token_ids`.
    """

    sequence_id: int
    model: str
    sampling: SamplingParams
    stop_token_ids: frozenset[int]
    max_tokens: int
    request_id: str = ""
    fairness_key: str = ""
    cache_mode: CacheMode = "full"
    lifetime: Lifetime = UNLIMITED_LIFETIME
    constraint: TokenConstraint | None = None
    images: tuple[ProcessedImage, ...] = ()
    salts: tuple[Salt, ...] = ()
    scores_prompt: bool = False
    adapters: tuple[LoraChoice, ...] = ()
    arrived_at: float = 0.0
    priority: int = 0
    prompt_token_ids: Tokens
    state: SequenceState = field(default=SequenceState.WAITING, init=False)
    shared_prefix: SharedPrefix | None = field(default=None, init=False)
    prefill: PrefillProgress = field(init=False)
    standing: Standing = field(init=False)
    statistics: PrefillStatistics = field(default_factory=PrefillStatistics, init=False)
    unfinished_pass: UnfinishedPass | None = field(default=None, init=False)
    num_resumed_tokens: int = field(default=0, init=False)
    num_sampled_tokens: int = field(default=0, init=False)
    output_token_ids: list[int] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.prefill = PrefillProgress(self.num_prompt_tokens - 1)
        self.standing = Standing(served_at=self.arrived_at)

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
    def num_reusable_tokens(self) -> int:
        """Prompt tokens computed here or, to be restored, elsewhere."""
        prefill, shared = self.prefill, self.shared_prefix
        if not prefill.needs_restore:
            return prefill.num_computed_tokens
        of_producer = min(shared.length, shared.producer.prefill.num_computed_tokens) if shared else 0
        return max(prefill.num_computed_tokens, prefill.expected_cached_tokens, of_producer)

    @property
    def num_uncomputed_tokens(self) -> int:
        """Prompt tokens that no sequence has computed, except the last."""
        return self.num_prompt_tokens - 1 - self.num_reusable_tokens

    def pass_tokens(self, quota: int) -> int:
        """Return about `quota` tokens to compute next, up to the next checkpoint.

        An image that has to be computed whole is not split.
        """
        start = self.prefill.num_computed_tokens
        end = start + min(self.prefill.num_tokens_to_checkpoint, quota)
        for image in self.images:
            if image.is_whole and image.start < end < image.end:
                end = image.start if image.start > start else image.end
        return end - start

    def encodes_image(self, num_tokens: int) -> bool:
        """Whether prefill of the next `num_tokens` runs the vision encoder.

        It does for an image that starts there, or whose first tokens were restored.
        """
        start = self.prefill.num_computed_tokens
        end = start + num_tokens
        first = 0 if start == self.prefill.num_cached_tokens else start
        return any(first <= image.start < end and start < image.end for image in self.images)

    @property
    def position_shift(self) -> int:
        """Position minus index of a token after all images of the prompt."""
        return shift_at(self.images, self.num_prompt_tokens)

    @property
    def producer(self) -> "Sequence | None":
        """The sequence that computes the shared prefix, if any."""
        return self.shared_prefix.producer if self.shared_prefix is not None else None

    @property
    def waits_for_producer(self) -> bool:
        """Whether another sequence is still computing the shared prefix."""
        return self.shared_prefix is not None and self.shared_prefix.is_awaited

    def wait_for(self, producer: "Sequence", shared_length: int) -> None:
        """Wait for `producer` to compute the shared prefix and store it.

        The producer gets a checkpoint at its end and at least this sequence's priority.
        """
        self.shared_prefix = SharedPrefix(producer, shared_length)
        producer.priority = min(producer.priority, self.priority)
        producer.prefill.add_checkpoint(shared_length)

    @property
    def computes_prompt_scores(self) -> bool:
        """Whether prefill returns log-probabilities.

        After a preemption they were reported already.
        """
        return self.scores_prompt and not self.was_preempted

    @property
    def has_begun_prefill(self) -> bool:
        """Whether a pass over the prompt has begun."""
        return self.prefill.has_begun or self.unfinished_pass is not None

    @property
    def prefills_alone(self) -> bool:
        """Whether prefill of the prompt cannot be batched with others."""
        return (
            bool(self.images)
            or self.computes_prompt_scores
            or not self.max_tokens
            or self.unfinished_pass is not None
        )

    @property
    def prefills_in_turns(self) -> bool:
        """Whether a pass can be interrupted between two layers.

        Prompt log-probabilities need the logits of every piece at once.
        """
        return not self.computes_prompt_scores

    @property
    def length(self) -> int:
        """Tokens in the cache after the step in flight."""
        return self.prefill.num_computed_tokens + self.num_sampled_tokens - self.num_resumed_tokens

    def tokens_in_cache(self, num_tokens: int) -> Tokens:
        """Return the first tokens of prompt and output together."""
        output = self.output_token_ids[self.num_resumed_tokens :]
        return self.prompt_token_ids + pack(output[: max(0, num_tokens - self.num_prompt_tokens)])

    def append_output_to_prompt(self) -> None:
        """Make the output the end of the prompt, to be computed again.

        So a preempted sequence waits anew. It has no token in flight.
        """
        self.prompt_token_ids = self.tokens_in_cache(self.num_client_tokens + len(self.output_token_ids))
        self.num_resumed_tokens = len(self.output_token_ids)
        self.prefill = self.prefill.after_preemption(self.num_prompt_tokens)
        self.shared_prefix = None

    @property
    def num_slice_tokens(self) -> int:
        """Output tokens since decoding began or continued."""
        return len(self.output_token_ids) - self.num_resumed_tokens

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

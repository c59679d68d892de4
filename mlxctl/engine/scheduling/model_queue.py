"""Model queue: the sequences of one model by state, and its costs.

`QueueCounts` counts the sequences of all models. Pure; MLX thread.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from mlxctl.engine.scheduling.grouping import affordable_padding, plan_joins
from mlxctl.engine.scheduling.output_lengths import OutputLengths
from mlxctl.engine.scheduling.prefill_pacer import PrefillPacer
from mlxctl.engine.scheduling.sequence import Sequence, SequenceState
from mlxctl.ir.conversation_size import OUTPUT_RESERVE_TOKENS, ConversationSize
from mlxctl.ir.kv_cache_size import KVWindow, cache_bytes
from mlxctl.ir.pass_memory import UNBOUNDED_PASSES, PassMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCosts:
    """Sizes of a loaded model in bytes.

    `num_layers` are those with a cache. `state_bytes` are those of a row's recurrent states, `conversation`
    is what a row needs alone. `can_batch` is False for caches that cannot be merged, `can_pad_prompts` for
    recurrent layers that read padding like tokens.
    """

    weights_bytes: int
    kv_bytes_per_token: int
    kv_windows: tuple[KVWindow, ...] = ()
    num_layers: int = 1
    state_bytes: int = 0
    conversation: ConversationSize | None = None
    pass_memory: PassMemory = UNBOUNDED_PASSES
    can_batch: bool = True
    can_pad_prompts: bool = True

    def cache_bytes(self, num_tokens: int) -> int:
        """Return the bytes of a sequence's cache."""
        growing = cache_bytes(num_tokens, bytes_per_token=self.kv_bytes_per_token, windows=self.kv_windows)
        return growing + self.state_bytes

    def needed_bytes(self, num_tokens: int) -> int:
        """Return the bytes of a sequence's cache, with what computes it alone."""
        if self.conversation is None:
            return self.cache_bytes(num_tokens)
        return self.conversation.needed_bytes(num_tokens)

    @property
    def affordable_prompt_padding_tokens(self) -> int:
        """Padding tokens of prompts in one pass.

        Below 0 they are prefilled alone.
        """
        return self.affordable_padding_tokens if self.can_pad_prompts else -1

    @property
    def affordable_padding_tokens(self) -> int:
        """Padding tokens that a decode group may have."""
        if not self.can_batch:
            return -1
        return affordable_padding(
            weights_bytes=self.weights_bytes, kv_bytes_per_token=self.kv_bytes_per_token
        )


@dataclass(slots=True)
class ModelQueue:
    """Sequences of one model: waiting, restoring, prefilling, and decode groups."""

    costs: ModelCosts
    pacer: PrefillPacer
    waiting: list[Sequence] = field(default_factory=list)
    restoring: list[Sequence] = field(default_factory=list)
    prefilling: list[Sequence] = field(default_factory=list)
    groups: list[list[Sequence]] = field(default_factory=list)
    output_lengths: OutputLengths = field(default_factory=OutputLengths)
    _groups_before_join: list[list[Sequence]] = field(default_factory=list)

    @property
    def num_decoding(self) -> int:
        return sum(map(len, self.groups))

    @property
    def decoding(self) -> list[Sequence]:
        """Rows of all decode groups."""
        return [row for group in self.groups for row in group]

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.restoring or self.prefilling or self.groups)

    @property
    def admitted(self) -> list[Sequence]:
        """Sequences that hold a cache and do not decode yet."""
        return self.restoring + self.prefilling

    def prompt_bytes(self, num_prompt_tokens: int, max_tokens: int) -> int:
        """Return what a prompt needs, with room for first output tokens."""
        return self.costs.needed_bytes(num_prompt_tokens + min(max_tokens, OUTPUT_RESERVE_TOKENS))

    def likely_bytes(self, row: Sequence) -> int:
        """Return the bytes that a prompt is likely to take."""
        return self.costs.needed_bytes(row.num_prompt_tokens + self.output_lengths.remaining(row))

    @property
    def reserved_bytes(self) -> int:
        """Bytes by which admitted prompts and rows are likely to grow."""
        costs = self.costs
        return sum(
            self.likely_bytes(row) - costs.cache_bytes(row.prefill.num_computed_tokens)
            for row in self.admitted
        ) + sum(
            costs.needed_bytes(row.length + self.output_lengths.remaining(row))
            - costs.cache_bytes(row.length)
            for row in self.decoding
        )

    def remove(self, sequence: Sequence) -> None:
        match sequence.state:
            case SequenceState.WAITING:
                self.waiting.remove(sequence)
            case SequenceState.RESTORING:
                self.restoring.remove(sequence)
            case SequenceState.PREFILLING:
                self.prefilling.remove(sequence)
            case SequenceState.DECODING:
                for group in self.groups:
                    if sequence in group:
                        group.remove(sequence)
                self.groups = [group for group in self.groups if group]
            case SequenceState.FINISHED:
                return
        sequence.state, sequence.unfinished_pass = SequenceState.FINISHED, None

    def admit(self, sequence: Sequence) -> None:
        """Move a waiting sequence to the prefilling ones, which hold a cache."""
        self.waiting.remove(sequence)
        self.prefilling.append(sequence)
        sequence.state = SequenceState.PREFILLING
        sequence.standing.take_place()

    def preempt(self, sequence: Sequence, *, resumes_first: bool, now: float) -> None:
        """Move a decoding or admitted sequence back to the waiting ones.

        It keeps its output. With `resumes_first` it continues before new sequences of its caller and
        priority.
        """
        self.remove(sequence)
        sequence.append_output_to_prompt()
        sequence.standing.note_preemption(resumes_first=resumes_first, now=now)
        self.waiting.append(sequence)
        sequence.state = SequenceState.WAITING

    def wait_for_disk(self, sequence: Sequence) -> None:
        """Move a prefilling sequence to those restored from disk."""
        self.prefilling.remove(sequence)
        self.restoring.append(sequence)
        sequence.state = SequenceState.RESTORING

    def resume(self, sequence: Sequence) -> None:
        """Move a restoring sequence back to the prefilling ones."""
        self.restoring.remove(sequence)
        self.prefilling.append(sequence)
        sequence.state = SequenceState.PREFILLING

    def start_decoding(self, sequences: Iterable[Sequence]) -> None:
        """Make a decode group of sequences after their prefill."""
        group = list(sequences)
        for sequence in group:
            self.prefilling.remove(sequence)
            sequence.state = SequenceState.DECODING
        self.groups.append(group)

    @property
    def can_join(self) -> bool:
        """Whether some decode groups cost less together."""
        return len(self._plan_joins()) < len(self.groups)

    def regroup(self) -> bool:
        """Join decode groups that cost less together; return whether there are any."""
        plan = self._plan_joins()
        joins = len(plan) < len(self.groups)
        if joins:
            self._groups_before_join = self.groups
            self.groups = [[row for index in members for row in self.groups[index]] for members in plan]
        return joins

    def undo_join(self) -> bool:
        """Take back the last `regroup`; return whether there is one."""
        before, self._groups_before_join = self._groups_before_join, []
        if before:
            self.groups = before
        return bool(before)

    def _plan_joins(self) -> list[list[int]]:
        lengths = [[row.length for row in group] for group in self.groups]
        return plan_joins(lengths, affordable_padding_tokens=self.costs.affordable_padding_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """Numbers of sequences of all models by state.

    Of the waiting ones, `num_preempted` have begun to answer, and `num_paused` wait for their clients.
    """

    num_waiting: int
    num_prefilling: int
    num_decoding: int
    num_groups: int
    num_preempted: int
    num_paused: int
    waiting_by_priority: dict[int, int]

    @classmethod
    def of(cls, queues: Iterable[ModelQueue]) -> "QueueCounts":
        """Count the sequences of these queues."""
        queues = list(queues)
        waiting = [row for queue in queues for row in queue.waiting]
        return cls(
            num_waiting=len(waiting),
            num_prefilling=sum(len(queue.admitted) for queue in queues),
            num_decoding=sum(queue.num_decoding for queue in queues),
            num_groups=sum(len(queue.groups) for queue in queues),
            num_preempted=sum(row.was_preempted for row in waiting),
            num_paused=sum(row.standing.is_paused for row in waiting),
            waiting_by_priority=dict(sorted(Counter(row.priority for row in waiting).items())),
        )

"""Scheduler in simulated time: a formula gives the seconds of a batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from mlxctl.engine.backend import CPU
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.scheduling import sequence as engine
from mlxctl.engine.scheduling.batch import Batch, RowResult, TurnLimit
from mlxctl.engine.scheduling.model_queue import ModelCosts
from mlxctl.engine.scheduling.prefill_batching import padded_tokens
from mlxctl.engine.scheduling.scheduler import Scheduler
from mlxctl.ir import SamplingParams
from mlxctl.ir.cache_usage import CacheUsage
from mlxctl.ir.scheduler_policy import SchedulerPolicy
from mlxctl.ir.tokens import Tokens, common_tokens, pack

MAX_PASS_TOKENS = 2048
"""Largest pass of the engine's default settings."""

_PLENTY = 1 << 40
# A batch that starts no step still reads and sends tokens: measured on 2 cores.
_READ_SECONDS = 0.0006


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Seconds of a pass and of a decode step.

    - Pass: `pass_fixed`, `pass_token` for each token, with padding, `pass_context` for each token before it,
      and `pass_attention` for each pair of a token and one that it attends to. Its `num_layers` take the same
      time; each turn over some of them adds `turn_fixed`.
    - Decode step: `step_fixed` for each group, `step_row` for each row, `step_context` for each token in the
      caches, with padding. A join takes `join_row` for each row and `join_token` for each token.
    - Mixture of experts: both add up to `all_experts`, the time to read all of them, of which a token uses
      `expert_share`.
    """

    pass_fixed: float = 0.002
    pass_token: float = 0.0002
    pass_context: float = 0.0
    pass_attention: float = 0.0
    turn_fixed: float = 0.0
    step_fixed: float = 0.002
    step_row: float = 0.0005
    step_context: float = 0.0
    join_row: float = 0.0
    join_token: float = 0.0
    all_experts: float = 0.0
    expert_share: float = 1.0
    num_layers: int = 1

    def pass_seconds(self, num_tokens: int, *, context: int = 0, num_prompts: int = 1) -> float:
        """Return the seconds of a pass.

        `num_tokens` are those of all its prompts, each after `context` tokens.
        """
        attended = context + num_tokens / num_prompts / 2
        per_token = self.pass_token + self.pass_attention * attended
        fixed = self.pass_fixed + self.pass_context * context * num_prompts
        return fixed + self._expert_seconds(num_tokens) + per_token * num_tokens

    def step_seconds(self, groups: Sequence[Sequence[int]]) -> float:
        """Return the seconds of a decode step of these row lengths."""
        return sum(
            self.step_fixed
            + self.step_row * len(group)
            + self.step_context * len(group) * max(group)
            + self._expert_seconds(len(group))
            for group in groups
        )

    def join_seconds(self, groups: Sequence[Sequence[int]]) -> float:
        """Return the seconds to join rows of these lengths into groups."""
        return sum(len(group) * (self.join_row + self.join_token * max(group)) for group in groups)

    def slower(self, factor: float) -> "Machine":
        """Return a machine that needs `factor` times the time."""
        seconds = {
            name: getattr(self, name) * factor
            for name in self.__dataclass_fields__
            if name not in ("num_layers", "expert_share")
        }
        return Machine(**seconds, num_layers=self.num_layers, expert_share=self.expert_share)

    def _expert_seconds(self, num_tokens: int) -> float:
        return self.all_experts * (1 - (1 - self.expert_share) ** num_tokens)


@dataclass(slots=True, kw_only=True)
class Request:
    """Times of one request, in simulated seconds."""

    arrived: float
    tokens: list[float] = field(default_factory=list)

    @property
    def ttft(self) -> float:
        """Seconds to the first token."""
        return self.tokens[0] - self.arrived

    def gaps(self, *, after: float = 0.0, before: float = float("inf")) -> list[float]:
        """Return the gaps between tokens that ended within this time."""
        return [late - early for early, late in pairwise(self.tokens) if after < late <= before]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """A finished prefill pass.

    `num_tokens` include padding, `work` are its seconds without disturbance. `is_rest`: it ended its prompts.
    """

    num_tokens: int
    work: float
    num_rows: int
    is_rest: bool


class SimulatedMemory(EngineMemory):
    """The engine's memory manager, in which a simulation uses the memory."""

    def __init__(self, limit_bytes: int, simulation: "Simulation") -> None:
        super().__init__(backend=CPU, limit_bytes=limit_bytes, prefix_cache_bytes=None)
        self._simulation = simulation
        self.add_working_caches("m", simulation)

    @property
    def _used_bytes(self) -> int:
        simulation = self._simulation
        return simulation.held_bytes + simulation.kept_bytes + simulation.preempted_bytes


class Simulation:
    """A scheduler, a machine, a clock and perhaps a memory limit.

    `disturb` may change the duration of the n-th batch. A decode step is charged when it starts, as on a CPU:
    its tokens are read in the next batch of its rows, after a join and before the next step.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        max_rows: int = 32,
        disturb: Callable[[int, float], float] = lambda _, seconds: seconds,
        costs: ModelCosts | None = None,
        memory_limit_bytes: int | None = None,
        **policy: Any,
    ) -> None:
        self.machine = machine
        self.now = 0.0
        self.available_bytes = _PLENTY
        self.memory_wait_seconds = 60.0
        self.num_refused = 0
        self.batches: list[tuple[Batch, float]] = []
        self.passes: list[Pass] = []
        self._disturb = disturb
        self._requests: dict[int, Request] = {}
        self._coming: list[tuple[float, engine.Sequence]] = []
        self._scheduler = Scheduler(
            SchedulerPolicy(max_rows=max_rows, **policy),
            prefill_slice_seconds=0.5,
            prefill_chunk_max_tokens=MAX_PASS_TOKENS,
        )
        self._costs = costs or ModelCosts(
            weights_bytes=1 << 30, kv_bytes_per_token=1, num_layers=machine.num_layers
        )
        self._scheduler.open_model("m", self._costs)
        self._unfinished: dict[int, _UnfinishedPass] = {}
        self._preempted: dict[int, int] = {}
        self._stored: list[Tokens] = []
        self._last_conversation_bytes = 0
        self.most_held = 0.0
        self._memory = SimulatedMemory(memory_limit_bytes, self) if memory_limit_bytes else None

    def ask(
        self,
        num_prompt_tokens: int,
        *,
        num_tokens: int,
        caller: str = "",
        priority: int = 0,
        delay: float = 0.0,
        begins_with: Tokens | None = None,
    ) -> Request:
        """Add a request with a unique prompt.

        Its first tokens are those of `begins_with`, if given. It is sent after `delay` seconds; the engine
        takes it between two batches.
        """
        sequence_id = len(self._requests) + 1
        tokens = pack(range(100_000 * sequence_id, 100_000 * sequence_id + num_prompt_tokens))
        if begins_with is not None:
            tokens = (begins_with + tokens)[:num_prompt_tokens]
        sequence = engine.Sequence(
            sequence_id=sequence_id,
            model="m",
            prompt_token_ids=tokens,
            sampling=SamplingParams(),
            stop_token_ids=frozenset(),
            max_tokens=num_tokens,
            fairness_key=caller,
            priority=priority,
            arrived_at=self.now,
        )
        self._requests[sequence_id] = Request(arrived=self.now + delay)
        if delay:
            self._coming.append((self.now + delay, sequence))
        else:
            self._add(sequence)
        return self._requests[sequence_id]

    @property
    def num_decoding(self) -> int:
        """Number of rows that decode."""
        return self._scheduler.counts().num_decoding

    @property
    def num_interrupted(self) -> int:
        """Number of interruptions of rows so far."""
        fairness = self._scheduler.fairness
        return fairness.num_preemptions + fairness.num_yields

    @property
    def held_bytes(self) -> int:
        """Bytes of the weights and of the caches of running requests."""
        lengths = [row.length for row in self._scheduler.sequences if row.sequence_id not in self._preempted]
        return self._costs.weights_bytes + sum(
            self._costs.cache_bytes(length) for length in lengths if length
        )

    @property
    def kept_bytes(self) -> int:
        """Bytes of the last conversation's cache."""
        return self._last_conversation_bytes

    def release_working_caches(self) -> None:
        """Free the last conversation's cache."""
        self._last_conversation_bytes = 0

    @property
    def preempted_bytes(self) -> int:
        """Bytes of the caches of preempted rows."""
        return sum(map(self._costs.cache_bytes, self._preempted.values()))

    def release_preempted(self) -> None:
        """Free the caches of preempted rows."""
        self._preempted = dict.fromkeys(self._preempted, 0)

    def run(self, *, seconds: float = float("inf"), until: Callable[[], bool] = lambda: False) -> None:
        """Run for a time, until a condition, or until idle."""
        end = self.now + seconds
        while (self._scheduler.has_work or self._coming) and self.now < end and not until():
            if not self._scheduler.has_work:
                self.now = max(self.now, min(time for time, _ in self._coming))
            self._step()

    def run_first(self, requests: Sequence[Request]) -> float:
        """Run until each request has its first token; return the slowest."""
        self.run(until=lambda: all(request.tokens for request in requests))
        return max(request.ttft for request in requests)

    def _add(self, sequence: engine.Sequence) -> None:
        sequence.arrived_at = sequence.standing.served_at = self.now
        sequence.prefill.expect(self._num_cached(sequence))
        self._scheduler.add(sequence)

    def _step(self) -> None:
        for time, sequence in [each for each in self._coming if each[0] <= self.now]:
            self._coming.remove((time, sequence))
            self._add(sequence)
        available_bytes = self._memory.available_bytes if self._memory else self.available_bytes
        self.num_refused += len(
            self._scheduler.take_short_of_memory(
                available_bytes=available_bytes, now=self.now, seconds=self.memory_wait_seconds
            )
        )
        if not self._scheduler.has_work:
            return
        batch = self._scheduler.next_batch(now=self.now, available_bytes=available_bytes)
        assert batch is not None
        begun = self.now
        results = self._run(batch)
        self._settle(batch, results, self.now - begun)
        if batch.phase == "decode":
            # The tokens in flight are sent before the next step starts.
            self.now += self._disturb(len(self.batches), self._step_seconds(batch))
        self.batches.append((batch, self.now - begun))
        self._scheduler.observe_step(batch, seconds=self.now - begun)
        if self._memory is not None:
            self.most_held = max(self.most_held, self.held_bytes / self._memory.limit_bytes)
            self._memory.make_room()

    def _run(self, batch: Batch) -> list[RowResult]:
        match batch.phase:
            case "restore":
                return [self._restore(row) for row in batch.prompts]
            case "prefill":
                return self._prefill(batch)
        rows = [row for group in batch.groups for row in group]
        # An interrupted row may have no token in flight.
        results = [
            RowResult(sequence=row, token_ids=[7] if row.has_token_in_flight else [])
            for row in rows
            if row.has_token_in_flight or batch.phase == "preempt"
        ]
        if batch.phase == "preempt":
            self._preempted |= {row.sequence_id: row.length for row in rows}
        if batch.phase == "decode":
            if batch.joins:
                joined = self.machine.join_seconds([[row.length for row in group] for group in batch.groups])
                self.now += self._disturb(len(self.batches), joined)
            for group in batch.groups:
                if not all(row.is_exhausted for row in group):
                    for row in group:
                        row.num_sampled_tokens += 1
        return results

    def _settle(self, batch: Batch, results: list[RowResult], seconds: float) -> None:
        for update in self._scheduler.settle(batch, results, seconds=seconds, now=self.now):
            self._requests[update.sequence_id].tokens += [self.now] * len(update.token_ids)
        for row in (result.sequence for result in results if result.sequence.is_finished):
            self._last_conversation_bytes = self._costs.cache_bytes(row.length)

    def _step_seconds(self, batch: Batch) -> float:
        running = [[row.length for row in group if not row.is_finished] for group in batch.groups]
        running = [group for group in running if group]
        return self.machine.step_seconds(running) if running else _READ_SECONDS

    def _restore(self, row: engine.Sequence) -> RowResult:
        resumed = self._preempted.pop(row.sequence_id, None)
        num_cached = self._num_cached(row) if resumed is None else min(resumed, row.num_prompt_tokens - 1)
        return RowResult(sequence=row, cache_usage=CacheUsage(num_cached_tokens=num_cached))

    def _num_cached(self, row: engine.Sequence) -> int:
        shared = (common_tokens(row.prompt_token_ids, tokens) for tokens in self._stored)
        return min(max(shared, default=0), row.num_prompt_tokens - 1)

    def _prefill(self, batch: Batch) -> list[RowResult]:
        first = batch.prompts[0]
        unfinished = self._unfinished.pop(first.sequence_id, None) or self._begin_pass(batch)
        turn = batch.turn if len(batch.prompts) == 1 else None
        number = len(self.batches)
        self.now += unfinished.run(turn, lambda seconds: self._disturb(number, seconds))
        if unfinished.num_remaining:
            self._unfinished[first.sequence_id] = unfinished
            return [RowResult(sequence=first, is_unfinished=True)]
        if batch.num_tokens:
            is_rest = len(batch.prompts) > 1 or batch.num_tokens == first.prefill.num_remaining_tokens
            self.passes.append(
                Pass(
                    num_tokens=_padded(batch),
                    work=unfinished.work,
                    num_rows=batch.num_decoding_rows,
                    is_rest=is_rest,
                )
            )
        self._store_shared(batch)
        return []

    def _begin_pass(self, batch: Batch) -> "_UnfinishedPass":
        context = max(prompt.prefill.num_computed_tokens for prompt in batch.prompts)
        seconds = (
            self.machine.pass_seconds(_padded(batch), context=context, num_prompts=len(batch.prompts))
            if batch.num_tokens
            else 0.0
        )
        # The cache of the first layer costs only a projection.
        num_layers = max(1, self.machine.num_layers - 1) if batch.num_tokens else 1
        return _UnfinishedPass(
            num_remaining=num_layers, layer=seconds / num_layers, turn_fixed=self.machine.turn_fixed
        )

    def _store_shared(self, batch: Batch) -> None:
        """Store prefixes that others wait for, which end at checkpoints."""
        for prompt in batch.prompts:
            computed = prompt.prefill.num_computed_tokens + (
                batch.num_tokens if len(batch.prompts) == 1 else prompt.prefill.num_remaining_tokens
            )
            if any(position <= computed for position in prompt.prefill.checkpoint_positions):
                self._stored.append(prompt.prompt_token_ids[:computed])


@dataclass(slots=True, kw_only=True)
class _UnfinishedPass:
    """A pass that is computed some layers at a time, like PrefillPass.

    `layer` are the seconds of one without disturbance, `measured` those of the last ones.
    """

    num_remaining: int
    layer: float
    turn_fixed: float
    work: float = 0.0
    measured: float | None = None

    def run(self, turn: TurnLimit | None, elapse: Callable[[float], float]) -> float:
        """Compute layers for about a turn; return the seconds."""
        taken, fixed = 0.0, self.turn_fixed if turn is not None else 0.0
        num = self._num_within(turn, taken) or 1
        while num:
            work = num * self.layer + fixed
            seconds, fixed = elapse(work), 0.0
            self.work += work
            self.num_remaining -= num
            self.measured = seconds / num
            taken += seconds
            num = self._num_within(turn, taken)
        return taken

    def _num_within(self, turn: TurnLimit | None, taken: float) -> int:
        if turn is None:
            return self.num_remaining
        if self.measured is None:
            return 1
        if self.num_remaining * self.measured <= turn.finishing_seconds - taken:
            return self.num_remaining
        return min(max(int((turn.seconds - taken) / max(self.measured, 1e-9)), 0), self.num_remaining)


def _padded(batch: Batch) -> int:
    return padded_tokens(batch.prompts) if len(batch.prompts) > 1 else batch.num_tokens

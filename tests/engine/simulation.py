"""Scheduler in simulated time: a formula gives the seconds of a batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from mlxctl.engine.backend import CPU
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.scheduling import sequence as engine
from mlxctl.engine.scheduling.batch import Batch, RowResult
from mlxctl.engine.scheduling.model_queue import ModelCosts
from mlxctl.engine.scheduling.prefill_batching import padded_tokens
from mlxctl.engine.scheduling.scheduler import Scheduler
from mlxctl.ir import SamplingParams
from mlxctl.ir.cache_usage import CacheUsage
from mlxctl.ir.scheduler_policy import SchedulerPolicy
from mlxctl.ir.tokens import Tokens, common_tokens, pack

from .simulated_machine import LayeredPass, Machine

MAX_PASS_TOKENS = 2048
"""Largest pass of the engine's default settings."""

_PLENTY = 1 << 40
# A batch that starts no step still reads and sends tokens: measured on 2 cores.
_READ_SECONDS = 0.0006


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
            prefill_turn_seconds=0.5,
            prefill_pass_max_tokens=MAX_PASS_TOKENS,
        )
        self._costs = costs or ModelCosts(
            weights_bytes=1 << 30, kv_bytes_per_token=1, num_layers=machine.num_layers
        )
        self._scheduler.open_model("m", self._costs)
        self._unfinished: dict[int, LayeredPass] = {}
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
        batch = self._within_memory(batch)
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

    def _within_memory(self, batch: Batch) -> Batch:
        """Return what runs where memory is short."""
        while self._memory is not None and batch.phase in ("decode", "restore", "prefill"):
            rows = [row for group in batch.groups for row in group]
            num_tokens = len(rows) + (batch.num_tokens if batch.phase == "prefill" else 0)
            if self._memory.make_room(self._costs.kv_bytes_per_token * num_tokens):
                break
            instead = self._scheduler.instead_of(batch)
            assert instead is not None, "every request of the loads fits alone"
            batch = instead
        return batch

    def _run(self, batch: Batch) -> list[RowResult]:
        match batch.phase:
            case "restore":
                return [self._restore(row) for row in batch.prompts]
            case "prefill":
                return self._prefill(batch)
        rows = [row for group in batch.groups for row in group] + list(batch.prompts)
        # An interrupted row may have no token in flight.
        results = [
            RowResult(sequence=row, token_ids=[7] if row.has_token_in_flight else [])
            for row in rows
            if row.has_token_in_flight or batch.phase == "preempt"
        ]
        if batch.phase == "preempt":
            is_freed = batch.reason == "memory"
            self._preempted |= {row.sequence_id: 0 if is_freed else row.length for row in rows}
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
        number = len(self.batches)
        self.now += unfinished.run(batch.turn, lambda seconds: self._disturb(number, seconds))
        if unfinished.num_remaining:
            self._unfinished[first.sequence_id] = unfinished
            return [RowResult(sequence=prompt, is_unfinished=True) for prompt in batch.prompts]
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

    def _begin_pass(self, batch: Batch) -> LayeredPass:
        context = max(prompt.prefill.num_computed_tokens for prompt in batch.prompts)
        seconds = (
            self.machine.pass_seconds(_padded(batch), context=context, num_prompts=len(batch.prompts))
            if batch.num_tokens
            else 0.0
        )
        # The cache of the first layer costs only a projection.
        num_layers = max(1, self.machine.num_layers - 1) if batch.num_tokens else 1
        return LayeredPass(
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


def _padded(batch: Batch) -> int:
    return padded_tokens(batch.prompts) if len(batch.prompts) > 1 else batch.num_tokens

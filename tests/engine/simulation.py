"""Scheduler in simulated time: a formula gives the seconds of a batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from mlxctl.engine.scheduling import sequence as engine
from mlxctl.engine.scheduling.batch import Batch, RowResult
from mlxctl.engine.scheduling.model_queue import ModelCosts
from mlxctl.engine.scheduling.prefill_batching import padded_tokens
from mlxctl.engine.scheduling.scheduler import Scheduler
from mlxctl.ir import SamplingParams
from mlxctl.ir.scheduler_policy import SchedulerPolicy
from mlxctl.ir.tokens import pack

_PLENTY = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Seconds of a pass and of a decode step.

    `pass_fixed` is 0 without a fixed cost. The tokens before a pass add `pass_context` each to the pass, and
    `pass_attention` each to every token of it. Layers take the same time.
    """

    pass_fixed: float = 0.002
    pass_token: float = 0.0002
    pass_context: float = 0.0
    pass_attention: float = 0.0
    step_fixed: float = 0.002
    step_row: float = 0.0005
    join_row: float = 0.0
    num_layers: int = 1

    def seconds(self, batch: Batch) -> float:
        """Return how long the batch takes."""
        if batch.phase in ("restore", "read"):
            return 0.0
        if batch.phase == "decode":
            num_rows = sum(map(len, batch.groups))
            joins = self.join_row * num_rows if batch.joins else 0.0
            return self.step_fixed * len(batch.groups) + self.step_row * num_rows + joins
        num_tokens = padded_tokens(batch.prompts) if len(batch.prompts) > 1 else batch.num_tokens
        context = max(prompt.prefill.num_computed_tokens for prompt in batch.prompts)
        return self.pass_seconds(num_tokens, context=context) if batch.num_tokens else 0.0

    def pass_seconds(self, num_tokens: int, *, context: int = 0) -> float:
        """Return the seconds of a prefill pass after `context` tokens."""
        per_token = self.pass_token + self.pass_attention * context
        return self.pass_fixed + self.pass_context * context + per_token * num_tokens


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


class Simulation:
    """A scheduler, a machine and a clock.

    `disturb` may change the duration of the n-th batch.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        max_rows: int = 32,
        disturb: Callable[[int, float], float] = lambda _, seconds: seconds,
        **policy: Any,
    ) -> None:
        self.machine = machine
        self.now = 0.0
        self.available_bytes = _PLENTY
        self.memory_wait_seconds = 60.0
        self.num_refused = 0
        self.batches: list[tuple[Batch, float]] = []
        self._disturb = disturb
        self._requests: dict[int, Request] = {}
        self._scheduler = Scheduler(
            SchedulerPolicy(max_rows=max_rows, **policy),
            prefill_slice_seconds=0.5,
            prefill_chunk_max_tokens=2048,
        )
        costs = ModelCosts(weights_bytes=1 << 30, kv_bytes_per_token=1, num_layers=machine.num_layers)
        self._scheduler.open_model("m", costs)
        self._computed_layers: dict[int, int] = {}
        self._slowness = 1.0

    def ask(self, num_prompt_tokens: int, *, num_tokens: int, caller: str = "") -> Request:
        """Add a request with a unique prompt."""
        sequence_id = len(self._requests) + 1
        sequence = engine.Sequence(
            sequence_id=sequence_id,
            model="m",
            prompt_token_ids=pack(range(100_000 * sequence_id, 100_000 * sequence_id + num_prompt_tokens)),
            sampling=SamplingParams(),
            stop_token_ids=frozenset(),
            max_tokens=num_tokens,
            fairness_key=caller,
            arrived_at=self.now,
        )
        self._requests[sequence_id] = Request(arrived=self.now)
        self._scheduler.add(sequence)
        return self._requests[sequence_id]

    @property
    def num_decoding(self) -> int:
        """Number of rows that decode."""
        return self._scheduler.counts().num_decoding

    def run(self, *, seconds: float = float("inf"), until: Callable[[], bool] = lambda: False) -> None:
        """Run for a time, until a condition, or until idle."""
        end = self.now + seconds
        while self._scheduler.has_work and self.now < end and not until():
            self._step()

    def run_first(self, requests: Sequence[Request]) -> float:
        """Run until each request has its first token; return the slowest."""
        self.run(until=lambda: all(request.tokens for request in requests))
        return max(request.ttft for request in requests)

    def _step(self) -> None:
        self.num_refused += len(
            self._scheduler.take_short_of_memory(
                available_bytes=self.available_bytes, now=self.now, seconds=self.memory_wait_seconds
            )
        )
        batch = self._scheduler.next_batch(now=self.now, available_bytes=self.available_bytes)
        assert batch is not None
        seconds, is_finished = self._turn(batch)
        undisturbed, seconds = seconds, self._disturb(len(self.batches), seconds)
        self._slowness = seconds / undisturbed if undisturbed else self._slowness
        self.now += seconds
        self.batches.append((batch, seconds))
        results = []
        if batch.phase == "restore" or not is_finished:
            results = [RowResult(sequence=row, is_unfinished=not is_finished) for row in batch.prompts]
        for row in (row for group in batch.groups for row in group):
            if row.has_token_in_flight:
                results.append(RowResult(sequence=row, token_ids=[7]))
            row.num_sampled_tokens += batch.phase == "decode"
        for update in self._scheduler.settle(batch, results, seconds=seconds, now=self.now):
            self._requests[update.sequence_id].tokens += [self.now] * len(update.token_ids)
        self._scheduler.observe_step(batch, seconds=seconds)

    def _turn(self, batch: Batch) -> tuple[float, bool]:
        """Return the seconds of a batch, and whether its pass is finished.

        The seconds are without disturbance. How many layers fit into a turn follows from the duration of the
        last batch.
        """
        seconds, num_layers = self.machine.seconds(batch), self.machine.num_layers
        if batch.phase != "prefill":
            return seconds, True
        prompt = batch.prompts[0]
        num_computed, layer = self._computed_layers.pop(prompt.sequence_id, 0), seconds / num_layers
        num_now = num_layers - num_computed
        if batch.turn is not None and layer:
            slow_layer = layer * self._slowness
            if num_now * slow_layer > batch.turn.finishing_seconds:
                num_now = max(1, int(batch.turn.seconds / slow_layer))
        if num_computed + num_now < num_layers:
            self._computed_layers[prompt.sequence_id] = num_computed + num_now
            return num_now * layer, False
        return num_now * layer, True

"""Text generation without process, thread or socket, stepped by the test.

With the constants of a Mac's backend, on which servers in tests do not run.
"""

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import msgspec

from mlxctl.engine.backend import METAL, Backend
from mlxctl.engine.generation.workload import GenerationWorkload
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.wire.commands import ConfigureScheduler, MountLora, ReportStats, Submit
from mlxctl.engine.wire.messages import AnyReport
from mlxctl.engine.wire.reports import RowUpdate, Score, Stats, Step
from mlxctl.engine.workload import WorkloadContext
from mlxctl.ir import CacheMode, Guidance, KVFormat, SamplingParams, TextGenerationTask
from mlxctl.ir.lora import LoraSpec
from mlxctl.ir.model_spec import NO_TEXT_OPTIONS, TextModelOptions
from mlxctl.ir.scheduler_policy import SchedulerPolicy
from mlxctl.ir.tokens import pack
from mlxctl.library import read_model
from mlxctl.state.settings import EngineSettings
from tests.engine.harness import GREEDY, result_of, sources
from tests.tiny_models.wide_heads import wide_model

_DEFAULTS = EngineSettings()


class SteppedEngine:
    """The workload of text generation on one model, stepped by hand."""

    def __init__(
        self,
        family: str,
        *,
        model: Path | None = None,
        kv_format: KVFormat | None = None,
        options: TextModelOptions = NO_TEXT_OPTIONS,
        settings: EngineSettings = _DEFAULTS,
        backend: Backend = METAL,
        room_bytes: int | None = None,
    ) -> None:
        """Load a family's tiny model, or a directory with `options`.

        With `room_bytes` that much memory is left beside the weights.
        """
        # Engines of earlier tests would be freed at any time.
        gc.collect()
        self.memory = EngineMemory(backend=backend, limit_bytes=1 << 40, prefix_cache_bytes=1 << 28)
        self._base_bytes = int(mx.get_active_memory())
        self._updates: dict[int, list[RowUpdate]] = {}
        self._workload = GenerationWorkload(
            WorkloadContext(
                settings=settings, backend=backend, memory=self.memory, publish=self._take, wake=int
            )
        )
        (spec,) = sources([family]) if model is None else [read_model(model).spec(family, options=options)]
        if kv_format is not None:
            task = TextGenerationTask(options=TextModelOptions(kv_format=kv_format))
            spec = msgspec.structs.replace(spec, path=wide_model(family), task=task)
        weights = result_of(self._workload.load(spec))
        if room_bytes is not None:
            # Models of other tests may be in memory as well.
            self.memory.limit_bytes = int(mx.get_active_memory()) + room_bytes
            self.memory.prefixes.index.max_bytes = room_bytes // 5
            mx.set_memory_limit(self.memory.limit_bytes)
        self._workload.open_model(spec, weights)
        self.family = family
        self.kv_bytes_per_token, self.state_bytes = weights.kv_bytes_per_token, weights.state_bytes
        self.weights_bytes = weights.weights_bytes
        mx.reset_peak_memory()

    @property
    def peak_share(self) -> float:
        """The peak since the engine was created, relative to its limit.

        Without what other tests hold.
        """
        peak = int(mx.get_peak_memory()) - self._base_bytes
        return peak / (self.memory.limit_bytes - self._base_bytes)

    def step(self) -> None:
        """Compute one step."""
        self._workload.step()

    @property
    def has_work(self) -> bool:
        """Whether requests are open."""
        return self._workload.has_work

    def failure(self, number: int) -> str | None:
        """Return why a request failed."""
        return next((update.failure for update in self._updates[number] if update.failure), None)

    def mount(self, spec: LoraSpec) -> None:
        """Mount a LoRA adapter."""
        self._workload.take(MountLora(token=0, model=self.family, spec=spec))
        self.run(lambda: not self._workload.has_work)

    def configure(self, policy: SchedulerPolicy) -> None:
        self._workload.take(ConfigureScheduler(policy=policy))

    def submit(
        self,
        prompt: list[int],
        *,
        priority: int = 0,
        max_tokens: int = 3,
        mode: CacheMode = "full",
        sampling: SamplingParams = GREEDY,
        guidance: Guidance | None = None,
        caller: str = "",
        **more: Any,
    ) -> int:
        """Submit a request; return its number."""
        number = len(self._updates) + 1
        self._updates[number] = []
        self._workload.take(
            Submit(
                sequence_id=number,
                model=self.family,
                prompt_token_ids=pack(prompt).tobytes(),
                sampling=sampling,
                guidance=guidance,
                fairness_key=caller,
                stop_token_ids=[],
                max_tokens=max_tokens,
                priority=priority,
                cache_mode=mode,
                **more,
            )
        )
        return number

    def run(self, until: Callable[[], bool]) -> None:
        """Step until a condition holds; grammars are compiled on another thread meanwhile."""
        deadline = time.monotonic() + 60
        while not until():
            assert time.monotonic() < deadline, "it did not happen"
            self._workload.step()

    @property
    def loaded_model(self) -> Any:
        return self._workload._runners[self.family]._model

    @property
    def prompt_amid_pass(self) -> Sequence | None:
        """The prompt of an unfinished pass that began at no checkpoint."""
        for row in self._workload._scheduler.sequences:
            prefill = row.prefill
            has_more = prefill.num_computed_tokens > prefill.num_cached_tokens
            is_checkpoint = prefill.num_computed_tokens in prefill.checkpoint_positions
            if row.unfinished_pass and has_more and not is_checkpoint:
                return row
        return None

    @property
    def has_unfinished_joint_pass(self) -> bool:
        """Whether a pass over several prompts is interrupted."""
        passes = (row.unfinished_pass for row in self._workload._scheduler.sequences)
        return any(unfinished is not None and len(unfinished.prompts) > 1 for unfinished in passes)

    def num_cached_tokens(self, number: int) -> int:
        return max(update.cache_usage.num_cached_tokens for update in self._updates[number])

    def cancel(self, number: int) -> None:
        self._workload.cancel({number})

    def tokens(self, number: int) -> list[int]:
        return [token_id for update in self._updates[number] for token_id in update.token_ids]

    def scores(self, number: int) -> list[Score]:
        return [score for update in self._updates[number] for score in update.scores]

    def stats(self) -> Stats:
        self._workload.take(ReportStats(token=0))
        return self._stats

    def is_done(self, *numbers: int) -> bool:
        assert not any(update.failure for number in numbers for update in self._updates[number])
        return all(self._updates[number] and self._updates[number][-1].finish_reason for number in numbers)

    def _take(self, report: AnyReport) -> None:
        match report:
            case Stats():
                self._stats = report
            case Step():
                for row in report.rows:
                    self._updates[row.sequence_id].append(row)

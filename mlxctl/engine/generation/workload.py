"""Text generation in the engine: admission, one batch a step, results.

MLX thread only.
"""

import logging
import time
from array import array
from collections.abc import Generator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, ClassVar

import mlx.core as mx

from mlxctl.engine.constraints import GrammarCompiler, TokenConstraint, needs_constraint
from mlxctl.engine.generation.cache_queries import CacheQueries
from mlxctl.engine.generation.loading import load_text_model
from mlxctl.engine.generation.prefix_coordinator import PrefixCoordinator
from mlxctl.engine.generation.runner import ModelRunner
from mlxctl.engine.generation.shared_loading import load_share
from mlxctl.engine.generation.statistics import GenerationStatistics
from mlxctl.engine.generation.step_memory import StepMemory
from mlxctl.engine.host.failures import failure_message
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.lora.lora_changes import LoraChanges
from mlxctl.engine.ranks.shared_records import SharedLayout
from mlxctl.engine.scheduling.batch import Batch, RowResult
from mlxctl.engine.scheduling.model_queue import ModelCosts
from mlxctl.engine.scheduling.scheduler import Scheduler
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.speculation.draft_steps import DraftSteps
from mlxctl.engine.speculation.policy.gate_store import GateStore
from mlxctl.engine.wire.commands import (
    AskCache,
    ConfigureCache,
    ConfigureScheduler,
    LookUp,
    MountLora,
    Pause,
    ReadGrammarVocabulary,
    ReportStats,
    Submit,
    UnmountLora,
    Unpause,
)
from mlxctl.engine.wire.reports import FailureKind, LookedUp, RowUpdate, Step
from mlxctl.engine.workload import Workload, WorkloadContext
from mlxctl.ir import ModelSpec, TextGenerationTask
from mlxctl.ir.cache_usage import NO_CACHE_USAGE
from mlxctl.prefix_cache.records import CacheLayout
from mlxctl.state.settings import EngineSettings, scheduler_policy

_TRIM_EVERY_STEPS = 512

_log = logging.getLogger(__name__)


class GenerationWorkload(Workload):
    """Sequences of all text models, with one scheduler.

    Each model has a runner.
    """

    task_type: ClassVar[type] = TextGenerationTask
    command_types: ClassVar[tuple[type, ...]] = (
        Submit,
        ReadGrammarVocabulary,
        LookUp,
        AskCache,
        ReportStats,
        MountLora,
        UnmountLora,
        ConfigureScheduler,
        ConfigureCache,
        Pause,
        Unpause,
    )

    def __init__(self, context: WorkloadContext) -> None:
        self._memory = context.memory
        self._publish = context.publish
        self._decode_load = context.decode_load
        self._backend = context.backend
        self._group = context.group
        if self._group is not None:
            # A step's tokens must be known before other ranks can begin the next one.
            self._backend = replace(context.backend, starts_decode_late=True)
        self._scheduler = _create_scheduler(context.settings)
        self._decode_load.has_rows = lambda: self._scheduler.has_decoding_rows
        self._compiler = GrammarCompiler(wake=context.wake)
        self._runners: dict[str, ModelRunner] = {}
        self._allocation_stream: mx.Stream | None = None
        self._submitted: list[Submit] = []
        self._lora_changes = LoraChanges(context.memory, context.publish, self._uses_adapter)
        self._settings = context.settings
        self._gates = GateStore(context.settings.cache_dir)
        self._is_waiting = False
        self._statistics = GenerationStatistics(self._scheduler, context.memory, context.group)

    @property
    def has_work(self) -> bool:
        return self._scheduler.has_work or bool(self._submitted) or self._lora_changes.has_work

    @property
    def is_blocked(self) -> bool:
        return self._is_waiting and not self._submitted and not self._lora_changes.has_work

    def load(self, spec: ModelSpec) -> Generator[int, None, LoadedWeights]:
        if self._group is not None:
            return load_share(spec, self._group, self._memory)
        return load_text_model(spec)

    def open_model(self, spec: ModelSpec, weights: LoadedWeights) -> None:
        create_caches = weights.create_caches
        caches = create_caches()
        layout = CacheLayout(caches) if self._group is None else SharedLayout(caches, self._group)
        prefix_cache = self._memory.prefixes.of_model(spec, layout)
        prefixes = PrefixCoordinator(prefix_cache, create_caches, reuses=weights.can_reuse)
        if weights.cache_limits:
            _log.warning("model %r is %s", spec.name, weights.cache_limits)
        # PERF: it imports mlx_lm's layers, which the engine need not have at its start.
        from mlxctl.engine.lora.lora_adapters import LoraAdapters

        lora = LoraAdapters(weights.model)
        drafts = DraftSteps.of_model(
            weights,
            lora,
            self._gates,
            self._statistics.drafts,
            name=spec.name,
            digest=prefix_cache.storage.namespace.hex(),
            settings=self._settings,
            backend=self._backend,
        )
        if self._allocation_stream is None:
            # MLX keeps a thread for every stream until the process ends.
            self._allocation_stream = mx.new_stream(mx.default_device())
        costs = ModelCosts(
            weights_bytes=weights.weights_bytes,
            kv_bytes_per_token=weights.kv_bytes_per_token,
            kv_windows=weights.kv_windows,
            num_layers=len(caches),
            state_bytes=weights.state_bytes,
            conversation=weights.conversation,
            pass_memory=weights.pass_memory.within(self._memory.cache_capacity_bytes),
            can_batch=weights.can_batch,
            can_pad_prompts=weights.can_pad_prompts,
        )
        memory = StepMemory(self._memory, costs, vocabulary_size=weights.vocabulary_size)
        self._runners[spec.name] = ModelRunner(
            weights, prefixes, self._backend, lora, drafts, memory, allocation_stream=self._allocation_stream
        )
        self._memory.add_working_caches(spec.name, prefixes)
        self._compiler.open_model(spec.name, spec.path)
        self._scheduler.open_model(spec.name, costs)

    def close_model(self, name: str) -> None:
        self._scheduler.close_model(name)
        self._compiler.close_model(name)
        del self._runners[name]
        if self._group is not None:
            self._group.unload(name)

    def is_in_use(self, name: str) -> bool:
        return (
            self._scheduler.is_in_use(name)
            or self._lora_changes.is_changing(name)
            or self._compiler.has_work_for(name)
            or any(submit.model == name for submit in self._submitted)
        )

    def take(self, command: Any) -> None:
        match command:
            case Submit():
                self._submitted.append(command)
            case ReadGrammarVocabulary(name=name, stop_token_ids=stops):
                if name in self._runners:
                    size = self._runners[name].vocabulary_size
                    self._compiler.announce(name, frozenset(stops), size)
            case MountLora() | UnmountLora() if self._group is not None:
                self._lora_changes.refuse(command, "LoRA adapters do not work on several ranks")
            case MountLora() | UnmountLora():
                runner = self._runners.get(command.model)
                self._lora_changes.add(command, runner.lora if runner is not None else None)
            case ConfigureScheduler():
                self._scheduler.configure(command.policy)
            case ConfigureCache():
                self._memory.configure_cache(command.policy)
            case Pause():
                self._scheduler.pause(command.ids)
            case Unpause():
                self._scheduler.unpause(command.ids, now=time.monotonic())
            case LookUp():
                self._publish(self._look_up(command))
            case AskCache():
                self._publish(CacheQueries(self._memory).answer(command))
            case ReportStats():
                self._publish(self._statistics.report(command.token))

    def cancel(self, ids: AbstractSet[int]) -> None:
        self._submitted = [submit for submit in self._submitted if submit.sequence_id not in ids]
        self._compiler.cancel(ids)
        for sequence in self._scheduler.cancel(ids):
            self._runners[sequence.model].drop([sequence])

    def step(self) -> None:
        self._admit()
        has_rows = self._scheduler.has_decoding_rows
        self._lora_changes.step(has_rows=has_rows)
        if not has_rows:
            self._compiler.load_announced()
        for sequence in self._take_fetched():
            self._scheduler.resume(sequence)
        if not self._scheduler.has_work:
            self._is_waiting = False
            return
        started = time.monotonic()
        available_bytes = self._memory.available_bytes
        self._fail_short_of_memory(available_bytes, started)
        batch = self._scheduler.next_batch(now=started, available_bytes=available_bytes)
        self._is_waiting = batch is None
        if batch is not None and (batch := self._within_memory(batch)):
            self._run(batch, started)

    def close(self) -> None:
        self._gates.save()
        self._compiler.close()

    def _admit(self) -> None:
        """Schedule new sequences; those with a constraint once it is compiled."""
        submitted, self._submitted = self._submitted, []
        for submit in submitted:
            if failure := self._problem(submit):
                self._fail(submit, *failure)
            elif needs_constraint(submit):
                self._compiler.compile(submit, vocabulary_size=self._runners[submit.model].vocabulary_size)
            else:
                self._add(submit, None)
        for submit, constraint in self._compiler.take_compiled():
            if isinstance(constraint, str):
                self._fail(submit, constraint)
            elif failure := self._problem(submit):
                self._fail(submit, *failure)
            else:
                self._add(submit, constraint)

    def _add(self, submit: Submit, constraint: TokenConstraint | None) -> None:
        sequence = Sequence.from_submit(submit, now=time.monotonic(), constraint=constraint)
        prefixes = self._runners[submit.model].prefixes
        sequence.prefill.expect(prefixes.expected_cached_tokens(sequence))
        self._scheduler.add(sequence)

    def _fail(self, request: Submit | Sequence, failure: str, kind: FailureKind = "failed") -> None:
        failure = failure_message(failure, request.request_id)
        update = RowUpdate(sequence_id=request.sequence_id, failure=failure, failure_kind=kind)
        self._publish(Step(rows=[update]))

    def _fail_short_of_memory(self, available_bytes: int, now: float) -> None:
        """Fail prompts that waited too long for memory held by others."""
        short = self._scheduler.take_short_of_memory(
            available_bytes=available_bytes, now=now, seconds=self._settings.memory_wait_seconds
        )
        for sequence, needed in short:
            self._fail(sequence, self._memory.describe_shortage(needed), "memory_shortage")

    def _problem(self, submit: Submit) -> tuple[str, FailureKind] | None:
        """Return why the model cannot take the sequence."""
        runner = self._runners.get(submit.model)
        if runner is None:
            return f"model {submit.model!r} is not loaded", "failed"
        if any(not runner.takes(image) for image in submit.images):
            return f"model {submit.model!r} does not take the images or audio of the prompt", "failed"
        if problem := runner.lora.problem(submit.adapters):
            return problem, "failed"
        # Ids are packed in four bytes each.
        num_tokens = len(submit.prompt_token_ids) // 4
        needed = self._scheduler.prompt_bytes(submit.model, num_tokens, submit.max_tokens)
        if needed <= self._memory.cache_capacity_bytes:
            return None
        if needed > self._memory.cache_capacity_beside(submit.model):
            return self._memory.describe_shortage(needed), "over_budget"
        return self._memory.describe_shortage(needed), "memory_shortage"

    def _uses_adapter(self, model: str, name: str) -> bool:
        """Whether an open sequence of the model uses the adapter."""
        open_requests: tuple[Submit | Sequence, ...] = (
            *self._submitted,
            *self._compiler.compiling,
            *self._scheduler.sequences,
        )
        return any(
            each.model == model and any(chosen.name == name for chosen in each.adapters)
            for each in open_requests
        )

    def _take_fetched(self) -> list[Sequence]:
        """Return the sequences whose cached prefix was read from disk."""
        records = self._memory.prefixes.take_fetched()
        return [
            sequence
            for runner in (self._runners.values() if records else ())
            for sequence in runner.prefixes.take_fetched(records)
        ]

    def _run(self, batch: Batch, started: float) -> None:
        runner = self._runners[batch.model]
        results = runner.run(batch)
        now = time.monotonic()
        is_measured = batch.phase != "decode" or not runner.drafts.only_reads
        if batch.phase == "decode" and is_measured:
            self._statistics.add_decode_step(now - started, num_rows=sum(map(len, batch.groups)))
            self._decode_load.observe(now - started, alone=self._scheduler.is_decode_only(batch))
        updates = self._scheduler.settle(batch, results, seconds=now - started, now=now)
        if updates:
            self._publish(Step(rows=updates))
        self._free(runner, results)
        runner.start_built()
        if is_measured:
            self._scheduler.observe_step(batch, seconds=time.monotonic() - started)

    def _free(self, runner: ModelRunner, results: list[RowResult]) -> None:
        finished = [result.sequence for result in results if result.sequence.is_finished]
        if finished:
            runner.drop(finished)
            self._gates.save_sometimes()
        self._statistics.num_steps += 1
        self._memory.make_room()
        if self._statistics.num_steps % _TRIM_EVERY_STEPS == 0:
            self._memory.trim()

    def _within_memory(self, batch: Batch) -> Batch | None:
        """Return the batch, or what runs in place of it.

        None after a row has ended that does not fit alone.
        """
        while batch.phase in ("decode", "restore", "prefill"):
            needed = self._runners[batch.model].needed_bytes(batch)
            if not needed or self._memory.make_room(needed):
                break
            instead = self._scheduler.instead_of(batch)
            if instead is None:
                self._end_for_memory(batch, needed)
                return None
            batch = instead
        return batch

    def _end_for_memory(self, batch: Batch, needed: int) -> None:
        row = self._scheduler.end_for_memory(batch)
        self._fail(row, self._memory.describe_limit(row.length, needed), "over_budget")
        self._runners[batch.model].drop([row])
        self._memory.make_room()

    def _look_up(self, query: LookUp) -> LookedUp:
        """Return how much of a prompt the prefix cache holds.

        Nothing for a model that is not loaded.
        """
        runner, tokens = self._runners.get(query.model), array("I", query.prompt_token_ids)
        if runner is None or not tokens:
            return LookedUp(token=query.token, usage=NO_CACHE_USAGE)
        return LookedUp(
            token=query.token,
            usage=runner.prefixes.look_up(tokens, query.salts),
            num_on_disk=runner.prefixes.num_on_disk(tokens, query.salts),
        )


def _create_scheduler(settings: EngineSettings) -> Scheduler:
    return Scheduler(
        scheduler_policy(settings),
        prefill_turn_seconds=settings.prefill_turn_seconds,
        prefill_pass_max_tokens=settings.prefill_pass_max_tokens,
    )

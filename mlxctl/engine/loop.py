"""The engine: five verbs in a loop, on the one thread that owns MLX.

It knows sequences of token ids, and nothing of text, HTTP or JSON. Everything it needs arrives through the
mailbox, everything it makes leaves through it.
"""

import os
import time
from pathlib import Path

from mlxctl.engine.audio.transcriber import Transcriber
from mlxctl.engine.audio.worker import TranscriptionWorker
from mlxctl.engine.cache_queries import CacheQueries
from mlxctl.engine.constraints import GrammarCompiler, TokenConstraint, needs_constraint
from mlxctl.engine.embedding.loading import open_embedder
from mlxctl.engine.embedding.worker import EmbeddingWorker
from mlxctl.engine.generation.runner import describe_device
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading import loader
from mlxctl.engine.loading.failures import failed_load
from mlxctl.engine.mailbox import FrontGoneError, Mailbox
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.process_memory import resident_bytes, return_free_memory
from mlxctl.engine.scheduling.batch import Batch, RowResult
from mlxctl.engine.scheduling.model_queue import ModelCosts
from mlxctl.engine.scheduling.scheduler import Scheduler
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.waker import Waker
from mlxctl.engine.wire.messages import (
    AnyCommand,
    AskCache,
    Cancel,
    Embed,
    Hello,
    LoadModel,
    LookUp,
    ModelLoaded,
    ModelUnloaded,
    ReadGrammarVocabulary,
    ReportStats,
    RowUpdate,
    Stats,
    Step,
    Stop,
    Submit,
    Transcribe,
    UnloadModel,
)
from mlxctl.errors import ModelError
from mlxctl.prefix_cache.disk.tier import DiskTier
from mlxctl.prefix_cache.packing import Packing
from mlxctl.settings import EngineSettings

_IDLE_SECONDS = 1.0
_TRIM_EVERY_STEPS = 512
# How long loading may keep the thread from its rows, and from its commands when there are none.
_LOAD_SLICE_SECONDS = 0.02
_IDLE_LOAD_SLICE_SECONDS = 0.25


class EngineLoop:
    """Takes commands, admits sequences, steps, publishes. Blocks only for commands, and only when idle."""

    def __init__(self, mailbox: Mailbox, settings: EngineSettings, *, blas: str) -> None:
        self._mailbox = mailbox
        self._waker = Waker()
        self._pool = EngineMemory(
            limit_bytes=settings.memory_limit_bytes or loader.default_memory_limit(),
            prefix_cache_bytes=settings.prefix_cache_bytes,
            disk=self._open_disk(settings),
            packing=_packing(settings),
        )
        self._scheduler = Scheduler(
            max_rows=settings.max_rows,
            prefill_slice_seconds=settings.prefill_slice_seconds,
            prefill_chunk_max_tokens=settings.prefill_chunk_max_tokens,
            target_gap_seconds=settings.target_gap_ms / 1e3 if settings.target_gap_ms is not None else None,
            target_ttft_seconds=settings.target_ttft_ms / 1e3,
        )
        self._embedding = EmbeddingWorker(
            slice_seconds=settings.prefill_slice_seconds, max_tokens=settings.prefill_chunk_max_tokens
        )
        self._speech = TranscriptionWorker(slice_seconds=settings.prefill_slice_seconds)
        self._blas = blas
        self._workshop = GrammarCompiler(wake=self._waker.wake)
        self._arrived: list[Submit] = []
        self._to_load: list[LoadModel] = []
        self._begun_load: LoadModel | None = None
        self._num_steps = 0
        self._is_fetching = False
        self._holds_free_memory = False
        self._is_stopping = False

    def run(self) -> None:
        """Serve until the front says Stop or is gone."""
        try:
            self._greet()
            while not self._is_stopping:
                self.take_commands()
                self.admit()
                self.load()
                self.step()
                self.embed()
                self.listen()
        except FrontGoneError:
            pass
        finally:
            self._workshop.close()
            self._mailbox.close()
        self._pool.close()
        self._waker.close()

    def take_commands(self) -> None:
        """Carry out what the front asked for since the last step."""
        has_rows = self._scheduler.has_work and not self._is_fetching
        idle = not (has_rows or self._has_jobs or self._arrived or self._to_load or self._pool.loading)
        for command in self._mailbox.take(timeout_seconds=_IDLE_SECONDS if idle else 0, waker=self._waker):
            self._carry_out(command)

    def admit(self) -> None:
        """Hand new sequences to the scheduler; those that need a guide, once it is made."""
        arrived, self._arrived = self._arrived, []
        for submit in arrived:
            if failure := self._reason_to_refuse(submit):
                self._publish([RowUpdate(sequence_id=submit.sequence_id, failure=failure)])
            elif needs_constraint(submit):
                self._workshop.compile(
                    submit, vocabulary_size=self._pool.runner(submit.model).vocabulary_size
                )
            else:
                self._admit(submit, constraint=None)
        for submit, constraint in self._workshop.take_compiled():
            if isinstance(constraint, str):
                self._publish([RowUpdate(sequence_id=submit.sequence_id, failure=constraint)])
            elif failure := self._reason_to_refuse(submit):
                self._publish([RowUpdate(sequence_id=submit.sequence_id, failure=failure)])
            else:
                self._admit(submit, constraint=constraint)

    def load(self) -> None:
        """Go on with the model that is being loaded, or begin with the next; a slice between two steps of the
        others.
        """
        if self._pool.loading is None:
            if not self._to_load:
                return
            self._begin_load(self._to_load.pop(0))
        name = self._pool.loading
        assert name is not None
        try:
            slice_seconds = _LOAD_SLICE_SECONDS if self._has_work else _IDLE_LOAD_SLICE_SECONDS
            weights = self._pool.load_step(seconds=slice_seconds)
        except ModelError as error:
            weights = None
            self._mailbox.publish(failed_load(name, error))
        if self._pool.loading is None and weights is None:
            self._pool.sweep()
        if weights is not None:
            self._open(name, weights)

    def step(self) -> None:
        """Compute one batch and say what came of it."""
        for sequence in self._pool.take_arrivals():
            self._scheduler.resume(sequence)
        if not self._scheduler.has_work:
            self._rest()
            return
        self._holds_free_memory = True
        started = time.monotonic()
        batch = self._scheduler.next_batch(now=started, available_bytes=self._pool.available_bytes)
        self._is_fetching = batch is None
        if batch is None:
            return
        results = self._run(batch)
        now = time.monotonic()
        if batch.phase == "decode":
            self._embedding.observe_decode(now - started, alone=self._scheduler.is_decode_only(batch))
            self._speech.observe_decode(now - started)
        updates = self._scheduler.settle(batch, results, seconds=now - started, now=now)
        self._publish(updates)
        self._free(batch, results)
        self._pool.runner(batch.model).start_built()
        self._scheduler.observe_step(batch, seconds=time.monotonic() - started)

    def _rest(self) -> None:
        """With nothing to decode, forget what expired and, once after each time of work, give free memory
        back to the system.
        """
        self._pool.tidy()
        if self._holds_free_memory and not self._has_jobs:
            return_free_memory()
            self._holds_free_memory = False

    def embed(self) -> None:
        """Compute the vectors of some texts, between two steps of the others."""
        if self._embedding.has_work:
            self._mailbox.publish(self._embedding.step(contended=self._scheduler.has_decoding_rows))
            self._after_job_slice()

    def listen(self) -> None:
        """Write down some of what was said, between two steps of the others."""
        if self._speech.has_work:
            self._mailbox.publish(self._speech.step(contended=self._scheduler.has_decoding_rows))
            self._after_job_slice()

    def _after_job_slice(self) -> None:
        self._holds_free_memory = True
        self._pool.make_room()
        if not self._has_work:
            self._pool.trim()

    @property
    def _has_jobs(self) -> bool:
        return self._embedding.has_work or self._speech.has_work

    @property
    def _has_work(self) -> bool:
        return self._scheduler.has_work or self._has_jobs

    def _admit(self, submit: Submit, *, constraint: TokenConstraint | None) -> None:
        self._scheduler.add(Sequence.from_submit(submit, now=time.monotonic(), constraint=constraint))

    def _open_disk(self, settings: EngineSettings) -> DiskTier | None:
        if settings.cache_dir is None or not settings.cache_disk_bytes or settings.prefix_cache_bytes == 0:
            return None
        return DiskTier.open(
            settings.cache_dir,
            max_bytes=settings.cache_disk_bytes,
            min_free_bytes=settings.cache_min_free_bytes,
            wake=self._waker.wake,
        )

    def _reason_to_refuse(self, submit: Submit) -> str | None:
        if not self._scheduler.is_open(submit.model):
            return f"model {submit.model!r} is not loaded"
        if submit.images and not self._pool.runner(submit.model).sees:
            return f"model {submit.model!r} reads text only: what it sees with is not loaded"
        # Ids come packed, in four bytes each.
        needed = self._scheduler.prompt_bytes(submit.model, len(submit.prompt_token_ids) // 4)
        if needed > self._pool.cache_capacity_bytes:
            return (
                f"the prompt's cache needs {needed / 1e9:.2f} GB, but the memory limit leaves "
                f"{self._pool.cache_capacity_bytes / 1e9:.2f} GB beside the weights"
            )
        return None

    def _run(self, batch: Batch) -> list[RowResult]:
        return self._pool.runner(batch.model).run(batch)

    def _free(self, batch: Batch, results: list[RowResult]) -> None:
        finished = [result.sequence for result in results if result.sequence.is_finished]
        if finished:
            self._pool.runner(batch.model).drop(finished)
        self._num_steps += 1
        self._pool.make_room()
        if self._num_steps % _TRIM_EVERY_STEPS == 0 or not self._scheduler.has_work:
            self._pool.trim()

    def _publish(self, updates: list[RowUpdate]) -> None:
        if updates:
            self._mailbox.publish(Step(rows=updates))

    def _carry_out(self, command: AnyCommand) -> None:
        match command:
            case ReadGrammarVocabulary(name=name, stop_token_ids=stops):
                if self._scheduler.is_open(name):
                    self._workshop.load_tokenizer(
                        name, frozenset(stops), self._pool.runner(name).vocabulary_size
                    )
            case Submit():
                self._arrived.append(command)
            case Embed():
                if failed := self._embedding.add(
                    command, cache_capacity_bytes=self._pool.cache_capacity_bytes
                ):
                    self._mailbox.publish(failed)
            case Transcribe():
                if refused := self._speech.add(command):
                    self._mailbox.publish(refused)
            case Cancel():
                self._cancel(command.sequence_ids)
            case LoadModel():
                self._to_load.append(command)
            case UnloadModel():
                self._unload(command.name)
            case ReportStats():
                self._report_stats(command.token)
            case LookUp():
                self._mailbox.publish(self._pool.look_up(command))
            case AskCache():
                self._mailbox.publish(CacheQueries(self._pool).answer(command))
            case Stop():
                self._is_stopping = True

    def _cancel(self, sequence_ids: list[int]) -> None:
        gone = set(sequence_ids)
        self._arrived = [submit for submit in self._arrived if submit.sequence_id not in gone]
        self._workshop.cancel(gone)
        self._embedding.drop(gone)
        self._speech.drop(gone)
        for sequence in self._scheduler.cancel(sequence_ids):
            self._pool.runner(sequence.model).drop([sequence])

    def _begin_load(self, command: LoadModel) -> None:
        self._workshop.open_model(command.name, Path(command.path))
        self._pool.begin_load(
            command.name,
            Path(command.path),
            weights_bytes=command.weights_bytes,
            trust_remote_code=command.trust_remote_code,
            embedding=command.embedding,
            vision=command.vision,
            kv_format=command.kv_format,
            speech=command.speech,
        )
        self._begun_load = command

    def _open(self, name: str, weights: LoadedWeights) -> None:
        assert self._begun_load is not None
        recipe, dimensions = self._begun_load.embedding, None
        if recipe is not None and weights.width is not None:
            self._embedding.open_model(name, open_embedder(weights, recipe))
            dimensions = recipe.num_dimensions(weights.width)
        elif self._begun_load.speech is not None:
            self._speech.open_model(name, Transcriber(weights.model, self._begun_load.speech))
        else:
            self._open_for_text(name, weights)
        self._mailbox.publish(
            ModelLoaded(
                name=name,
                vocabulary_size=weights.vocabulary_size,
                weights_bytes=weights.weights_bytes,
                kv_bytes_per_token=weights.kv_bytes_per_token,
                kv_bits=weights.kv_format.bits if weights.kv_format else None,
                cache_kind=weights.cache_kind,
                load_seconds=weights.load_seconds,
                dimensions=dimensions,
                vision_problem=weights.vision_problem,
            )
        )

    def _open_for_text(self, name: str, weights: LoadedWeights) -> None:
        costs = ModelCosts(
            weights_bytes=weights.weights_bytes,
            kv_bytes_per_token=weights.kv_bytes_per_token,
            can_batch=weights.can_batch,
        )
        self._scheduler.open_model(name, costs)

    def _unload(self, name: str) -> None:
        self._to_load = [command for command in self._to_load if command.name != name]
        is_waited_for = self._workshop.has_work_for(name) or any(
            submit.model == name for submit in self._arrived
        )
        has_jobs = self._embedding.is_in_use(name) or self._speech.is_in_use(name)
        if self._scheduler.is_in_use(name) or has_jobs or is_waited_for:
            self._mailbox.publish(ModelUnloaded(name=name, is_in_use=True))
            return
        weights_bytes = freed_bytes = 0
        if self._pool.holds(name):
            if self._scheduler.is_open(name):
                self._scheduler.close_model(name)
            self._embedding.close_model(name)
            self._speech.close_model(name)
            self._workshop.close_model(name)
            weights_bytes, freed_bytes = self._pool.unload(name)
        self._mailbox.publish(ModelUnloaded(name=name, weights_bytes=weights_bytes, freed_bytes=freed_bytes))

    def _greet(self) -> None:
        mlx_version, mlx_lm_version = loader.versions()
        self._mailbox.publish(
            Hello(
                pid=os.getpid(),
                device=describe_device(),
                mlx_version=mlx_version,
                mlx_lm_version=mlx_lm_version,
                blas=self._blas,
                memory_limit_bytes=self._pool.limit_bytes,
                prefix_cache_bytes=self._pool.prefixes.max_bytes,
            )
        )

    def _report_stats(self, token: int) -> None:
        import mlx.core as mx

        hits, num_reused = self._pool.cache_hits()
        num_waiting, num_prefilling, num_decoding, num_groups = self._scheduler.counts()
        self._mailbox.publish(
            Stats(
                token=token,
                num_waiting=num_waiting,
                num_prefilling=num_prefilling,
                num_decoding=num_decoding,
                num_decode_groups=num_groups,
                num_steps=self._num_steps,
                num_prompt_tokens=self._scheduler.num_prompt_tokens,
                num_generated_tokens=self._scheduler.num_generated_tokens,
                cache_bytes=self._pool.prefixes.num_bytes,
                cache_working_bytes=self._pool.kept_bytes - self._pool.prefixes.num_bytes,
                cache_max_bytes=self._pool.prefixes.max_bytes,
                cache_chunks=len(self._pool.prefixes),
                cache_evicted=self._pool.prefixes.num_evicted,
                cache_tokens_reused=num_reused,
                cache_hits=hits,
                cache_disk=self._pool.disk_figures(),
                active_memory_bytes=int(mx.get_active_memory()),
                peak_memory_bytes=int(mx.get_peak_memory()),
                buffer_cache_bytes=int(mx.get_cache_memory()),
                resident_bytes=resident_bytes(),
            )
        )


def _packing(settings: EngineSettings) -> Packing | None:
    if settings.prefix_cache_bits == "full":
        return None
    return Packing(bits=int(settings.prefix_cache_bits), exact_tokens=settings.prefix_cache_exact_tokens)

"""Transcription in the engine: one audio window at a time, in slices.

MLX thread only.
"""

import importlib
import time
from collections import deque
from collections.abc import Generator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, ClassVar

import mlx.core as mx

from mlxctl.engine.audio.transcriber import Transcriber
from mlxctl.engine.audio.transcription_model import TranscriptionModel, family_module, open_model
from mlxctl.engine.host.failures import FOREIGN_ERRORS, failure_message
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading.audio_modules import give_weights, read_config, read_tensors
from mlxctl.engine.loading.imports import import_in_thread
from mlxctl.engine.loading.loader import parameter_bytes, read_weights
from mlxctl.engine.wire.jobs import Transcribe, Transcribed, TranscribedWindow
from mlxctl.engine.workload import Workload, WorkloadContext
from mlxctl.ir import ModelSpec, TranscriptionRecipe, TranscriptionTask

# The module of mlx-audio with the layers of Whisper models.
_MODULE = "mlx_audio.stt.models.whisper.whisper"
# Longest slice while no row decodes: a request that arrives meanwhile waits for it.
_ALONE_SECONDS = 0.1


class TranscriptionWorkload(Workload):
    """Transcribes audio windows in the order of their arrival.

    One window at a time holds memory.
    """

    task_type: ClassVar[type] = TranscriptionTask
    command_types: ClassVar[tuple[type, ...]] = (Transcribe,)

    def __init__(self, context: WorkloadContext) -> None:
        self._context = context
        self._models: dict[str, TranscriptionModel] = {}
        self._waiting: deque[Transcribe] = deque()
        self._current: Generator[None, None, TranscribedWindow] | None = None

    @property
    def has_work(self) -> bool:
        return bool(self._waiting)

    def load(self, spec: ModelSpec) -> Generator[int, None, LoadedWeights]:
        assert isinstance(spec.task, TranscriptionTask)
        recipe = spec.task.recipe
        return _load_whisper(spec.path, recipe) if recipe.whisper else _load_family(spec.path, recipe)

    def open_model(self, spec: ModelSpec, weights: LoadedWeights) -> None:
        self._models[spec.name] = weights.model

    def close_model(self, name: str) -> None:
        assert not self.is_in_use(name), "a model is closed after its windows"
        del self._models[name]

    def is_in_use(self, name: str) -> bool:
        return any(job.window.model == name for job in self._waiting)

    def take(self, command: Transcribe) -> None:
        if command.window.model in self._models:
            self._waiting.append(command)
        else:
            failure = f"transcription model {command.window.model!r} is not loaded"
            self._context.publish(_failed(command, failure))

    def cancel(self, ids: AbstractSet[int]) -> None:
        if self._waiting and self._waiting[0].job_id in ids:
            self._current = None
        self._waiting = deque(job for job in self._waiting if job.job_id not in ids)

    def step(self) -> None:
        if self._waiting:
            self._context.publish(self._transcribe(self._waiting[0]))
            self._context.memory.make_room()

    def _transcribe(self, job: Transcribe) -> Transcribed:
        until = self._context.slice_end(alone_seconds=_ALONE_SECONDS)
        if self._current is None:
            self._current = self._models[job.window.model].transcribe(job.window)
        try:
            next(self._current)
            while time.monotonic() < until:
                next(self._current)
        except StopIteration as end:
            self.cancel({job.job_id})
            return Transcribed(job_id=job.job_id, window=end.value)
        except FOREIGN_ERRORS as error:
            self.cancel({job.job_id})
            return _failed(job, f"transcription failed: {error}")
        return Transcribed(job_id=job.job_id)


def _failed(job: Transcribe, failure: str) -> Transcribed:
    return Transcribed(job_id=job.job_id, failure=failure_message(failure, job.request_id))


def _load_whisper(path: Path, recipe: TranscriptionRecipe) -> Generator[int, None, LoadedWeights]:
    """Load the model and decode one token.

    Yields the number of bytes read so far.
    """
    started = time.monotonic()
    for _ in import_in_thread(_MODULE):
        yield 0
    model = open_transcriber(path)
    yield from read_weights(model)
    states = mx.zeros((1, model.dims.n_audio_ctx, model.dims.n_audio_state), dtype=model.dtype)
    logits, caches, _ = model.decoder(mx.array([[0]]), states)
    mx.eval(logits, caches)
    return _loaded(Transcriber(model, recipe), model, vocabulary_size=int(logits.shape[-1]), started=started)


def _load_family(path: Path, recipe: TranscriptionRecipe) -> Generator[int, None, LoadedWeights]:
    """Load a model of mlx-audio with the files that its family needs."""
    started = time.monotonic()
    family = family_module(recipe.family)
    for _ in import_in_thread(*family.MODULES):
        yield 0
    model = open_model(path, family.PACKAGE)
    yield from read_weights(model)
    return _loaded(family.open_model(model, path), model, vocabulary_size=1, started=started)


def _loaded(speech: TranscriptionModel, model: Any, *, vocabulary_size: int, started: float) -> LoadedWeights:
    return LoadedWeights(
        model=speech,
        vocabulary_size=vocabulary_size,
        weights_bytes=parameter_bytes(model),
        # Its caches are those of one window at a time, and are not kept.
        kv_bytes_per_token=0,
        cache_kind="plain",
        can_batch=False,
        load_seconds=time.monotonic() - started,
    )


def open_transcriber(path: Path) -> Any:
    """Return the model at `path`, its parameters not yet read.

    Raises ValueError for weights that do not fit its layers.
    """
    package: Any = importlib.import_module(_MODULE)
    config, weights = read_config(path), read_tensors(path)
    dtype = next(
        (array.dtype for array in weights.values() if mx.issubdtype(array.dtype, mx.floating)), mx.float16
    )
    # mlx-audio's sanitize converts to this type: that of the files keeps their size.
    model = package.Model(package.ModelDimensions.from_dict(config), dtype)
    give_weights(model, model.sanitize(weights), config)
    return model

"""Bringing MLX and a model into this process.

MLX thread only; the one place that imports mlx_lm for the first time.
"""

import contextlib
import ctypes
import ctypes.util
import os
import resource
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from mlxctl.engine.embedding.weights import embedding_classes, modules_of
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading.imports import import_aside
from mlxctl.errors import BrokenModel, ModelNotFoundOnDisk, NotEnoughMemory
from mlxctl.installed import version_of
from mlxctl.ir import EmbeddingRecipe, KVFormat, TranscriptionRecipe, VisionRecipe

# Share of the memory that weights and caches may take when nobody says otherwise.
_MEMORY_SHARE = 0.85
# Weights that are read at once before others have their turn.
_PIECE_BYTES = 64 * 1024 * 1024
# What a damaged or unknown model raises is not ours to enumerate more finely: it comes from mlx, mlx_lm and
# safetensors.
_LOAD_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    RuntimeError,
    OSError,
    AttributeError,
    IndexError,
    ImportError,
)
_OPENBLAS_NAMES = ("libopenblas.so.0", "libopenblas.so")


def prefer_openblas() -> str:
    """On Linux, put OpenBLAS in front of the reference BLAS that MLX's wheel bundles; return the name of what
    will be used.

    It works because libmlx imports plain `cblas_*` symbols, so the first library in the global scope wins.
    Must run before `mlx.core` is imported. Elsewhere MLX brings its own and nothing is done.
    """
    if not sys.platform.startswith("linux"):
        return "native"
    # Matrices of one decode step are too small to be worth a second thread, and the front needs the other
    # core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(1, (os.cpu_count() or 2) // 2)))
    for name in _OPENBLAS_NAMES:
        with contextlib.suppress(OSError):
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            return "openblas"
    return "bundled"


@contextlib.contextmanager
def _unchanged_file_limits() -> Iterator[None]:
    # mlx_lm.utils lowers RLIMIT_NOFILE when it is imported, and raises where the hard limit is below what it
    # wants.
    original = resource.setrlimit
    resource.setrlimit = lambda *_: None
    try:
        yield
    finally:
        resource.setrlimit = original


def import_mlx_lm() -> ModuleType:
    """Return `mlx_lm.utils`, imported without its side effect on the process's limits."""
    with _unchanged_file_limits():
        import mlx_lm.utils

    return mlx_lm.utils  # type: ignore[no-any-return]


def default_memory_limit() -> int:
    """Return how many bytes MLX may use here: a share of the device's recommended working set, or of the
    machine's memory.
    """
    import mlx.core as mx

    info = mx.device_info()
    recommended = int(info.get("max_recommended_working_set_size", 0))
    if recommended:
        return recommended
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * _MEMORY_SHARE)


def versions() -> tuple[str, str]:
    """Return the versions of mlx and mlx-lm."""
    return version_of("mlx") or "", version_of("mlx-lm") or ""


def load_weights(
    path: Path, *, weights_bytes: int, available_bytes: int, limit_bytes: int, trust_remote_code: bool
) -> LoadedWeights:
    """Load the model at `path` and run one token through it; see `weights_in_pieces`, of which this is all
    pieces in one go.
    """
    pieces = weights_in_pieces(
        path,
        weights_bytes=weights_bytes,
        available_bytes=available_bytes,
        limit_bytes=limit_bytes,
        trust_remote_code=trust_remote_code,
    )
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            weights: LoadedWeights = end.value
            return weights


def weights_in_pieces(
    path: Path,
    *,
    weights_bytes: int,
    available_bytes: int,
    limit_bytes: int,
    trust_remote_code: bool,
    embedding: EmbeddingRecipe | None = None,
    vision: VisionRecipe | None = None,
    kv_format: KVFormat | None = None,
    speech: TranscriptionRecipe | None = None,
) -> Generator[int, None, LoadedWeights]:
    """Load the model at `path` piece by piece, so that the thread can do other things between two of them,
    and run one token.

    Each piece gives the bytes that were read so far. A model that embeds is loaded without its head, one that
    sees with what it sees with; if that cannot be, it still reads text. One with `speech` is of mlx-audio's
    layers. One whose caches are to be quantized in `kv_format` is tried with such, and broken if it cannot.

    `weights_bytes` is the size of its files: loading is refused before it begins when they do not fit into
    `available_bytes`. Raises ModelNotFoundOnDisk, BrokenModel, NotEnoughMemory. Runs code from the directory
    only if trusted. Closing the generator lets go of what was read.
    """
    import mlx.core as mx

    from mlxctl.engine.loading.measurement import measure, measure_encoder

    if weights_bytes > available_bytes:
        raise NotEnoughMemory(path, needed_bytes=weights_bytes, limit_bytes=limit_bytes)
    started = time.monotonic()
    try:
        if speech is not None:
            return (yield from _listening(path, started))
        package = import_mlx_lm()
        for _ in import_aside(*modules_of(embedding)) if embedding else ():
            yield 0
        classes = (
            {}
            if embedding is None
            else {"get_model_classes": partial(embedding_classes, recipe=embedding, path=path)}
        )
        model, _ = package.load_model(path, lazy=True, trust_remote_code=trust_remote_code, **classes)
        yield from _read(model)
        encoder = None if embedding is None else embedding.encoder
        if encoder is not None:
            return measure_encoder(model, encoder, started)
        measured = measure(model, started, is_headless=embedding is not None, kv_format=kv_format)
        return measured if vision is None else (yield from _with_vision(measured, path, vision))
    except FileNotFoundError as error:
        raise ModelNotFoundOnDisk(path, f"model {str(path)!r}: {_one_line(error)}") from error
    except _LOAD_ERRORS as error:
        raise BrokenModel(path, f"model {str(path)!r} cannot be loaded: {_one_line(error)}") from error
    finally:
        mx.clear_cache()


def _read(model: Any) -> Iterator[int]:
    """Bring the lazy parameters into memory, and pause after every piece with the bytes that are there."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    piece: list[Any] = []
    num_bytes = num_bytes_read = 0
    for _, array in tree_flatten(model.parameters()):
        piece.append(array)
        num_bytes += array.nbytes
        if num_bytes - num_bytes_read >= _PIECE_BYTES:
            mx.eval(piece)
            piece, num_bytes_read = [], num_bytes
            yield num_bytes
    mx.eval(piece)
    yield num_bytes


def _with_vision(
    weights: LoadedWeights, path: Path, vision: VisionRecipe
) -> Generator[int, None, LoadedWeights]:
    """Load what the model sees with, too; what goes wrong with that is only noted."""
    started = time.monotonic()
    try:
        seeing = yield from _seeing(weights, path, vision)
    except (*_LOAD_ERRORS, AssertionError) as error:
        return replace(weights, vision_problem=f"what it sees with cannot be loaded: {_one_line(error)}")
    return replace(seeing, load_seconds=weights.load_seconds + time.monotonic() - started)


def _seeing(weights: LoadedWeights, path: Path, vision: VisionRecipe) -> Generator[int, None, LoadedWeights]:
    from mlxctl.engine.loading.measurement import parameter_bytes
    from mlxctl.engine.vision.loading import join, open_tower

    for _ in import_aside("mlx_vlm.utils", f"mlx_vlm.models.{weights.model.model_type}"):
        yield weights.weights_bytes
    tower = open_tower(path, weights.model.language_model.model.embed_tokens)
    for num_bytes in _read(tower):
        yield weights.weights_bytes + num_bytes
    tower.eval()
    num_bytes = weights.weights_bytes + parameter_bytes(tower)
    return replace(weights, model=join(weights.model, tower, vision), sees=True, weights_bytes=num_bytes)


def _listening(path: Path, started: float) -> Generator[int, None, LoadedWeights]:
    """Load a model that writes down speech."""
    from mlxctl.engine.audio.loading import MODULE, open_transcriber
    from mlxctl.engine.loading.measurement import measure_transcriber

    for _ in import_aside(MODULE):
        yield 0
    model = open_transcriber(path)
    yield from _read(model)
    return measure_transcriber(model, started)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    kind: Literal["", "missing key "] = "missing key " if isinstance(error, KeyError) else ""
    return kind + (text if len(text) <= 300 else text[:297] + "…")

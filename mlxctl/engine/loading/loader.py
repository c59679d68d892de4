"""Importing MLX and loading models piece by piece. MLX thread only.

The one place that imports mlx_lm for the first time.
"""

import contextlib
import json
import os
import resource
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from mlxctl.engine.host.failures import FOREIGN_ERRORS
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.ir import ModelSpec
from mlxctl.ir.errors import BrokenModel, ModelNotFoundOnDisk, NotEnoughMemory
from mlxctl.state.installed import version_of

Loader = Callable[[ModelSpec], Generator[int, None, LoadedWeights]]
"""Loads a model of one kind; yields the bytes read so far."""

LOAD_ERRORS = (*FOREIGN_ERRORS, OSError, ImportError)
"""What loading a damaged or unsupported model may raise."""

# Share of the machine's memory for weights and caches, where neither settings nor device give a limit.
_MEMORY_SHARE = 0.85
# Bytes of weights that are read without a pause.
_PIECE_BYTES = 64 * 1024 * 1024


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


def load_lm_model(path: Path, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return a model of mlx_lm and its configuration.

    Weights are not yet read. `options` are those of `mlx_lm.utils.load_model`. Raises LOAD_ERRORS.
    """
    utils: Any = import_mlx_lm()
    original = utils.load_config

    def load_config(path: Path) -> dict[str, Any]:
        try:
            return original(path)  # type: ignore[no-any-return]
        except (AttributeError, OSError, UnicodeDecodeError, json.JSONDecodeError):
            # It also reads end tokens from generation_config.json, which may be broken: the adapter does so.
            return json.loads((path / "config.json").read_text(encoding="utf-8-sig"))  # type: ignore[no-any-return]

    utils.load_config = load_config
    try:
        return utils.load_model(path, lazy=True, **options)  # type: ignore[no-any-return]
    finally:
        utils.load_config = original


def default_memory_limit() -> int:
    """Return the bytes that MLX may use without a configured limit.

    The device's recommended working set, or a share of the machine's memory.
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


def load_in_pieces(
    spec: ModelSpec, load: Loader, *, available_bytes: int, limit_bytes: int
) -> Generator[int, None, LoadedWeights]:
    """Load a model in pieces between which the thread serves others.

    Yields the number of bytes read so far. Nothing is read of a model whose files do not fit into
    `available_bytes`. Raises ModelNotFoundOnDisk, BrokenModel, NotEnoughMemory. Closing the generator frees
    what was read.
    """
    import mlx.core as mx

    path = spec.path
    if spec.weights_bytes > available_bytes:
        raise NotEnoughMemory(path, needed_bytes=spec.weights_bytes, limit_bytes=limit_bytes)
    try:
        return (yield from load(spec))
    except FileNotFoundError as error:
        raise ModelNotFoundOnDisk(path, f"model {str(path)!r}: {error_line(error)}") from error
    except LOAD_ERRORS as error:
        raise BrokenModel(path, f"model {str(path)!r} cannot be loaded: {error_line(error)}") from error
    finally:
        mx.clear_cache()


class ModelLoad:
    """A model that is loaded piece by piece, between other steps.

    `num_bytes_read` of its weights are in memory.
    """

    def __init__(self, spec: ModelSpec, load: Loader, *, available_bytes: int, limit_bytes: int) -> None:
        """Begin the load; the arguments are those of `load_in_pieces`."""
        self.spec = spec
        self.num_bytes_read = 0
        self._pieces = load_in_pieces(spec, load, available_bytes=available_bytes, limit_bytes=limit_bytes)

    def step(self, *, seconds: float) -> LoadedWeights | None:
        """Load for about `seconds`; return the model when it is complete.

        Raises ModelNotFoundOnDisk, BrokenModel, NotEnoughMemory.
        """
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                self.num_bytes_read = next(self._pieces)
        except StopIteration as end:
            weights: LoadedWeights = end.value
            return weights
        return None

    def stop(self) -> int:
        """Stop reading; return the number of bytes read."""
        self._pieces.close()
        return self.num_bytes_read


def read_weights(model: Any) -> Iterator[int]:
    """Evaluate a model's lazy parameters; yield the bytes read after every piece."""
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


def parameter_bytes(model: Any) -> int:
    """Return the bytes of a model's weights."""
    from mlx.utils import tree_flatten

    return sum(array.nbytes for _, array in tree_flatten(model.parameters()))


def error_line(error: BaseException) -> str:
    """Return an exception of another library as one line.

    At most 300 characters.
    """
    text = " ".join(str(error).split()) or type(error).__name__
    kind: Literal["", "missing key "] = "missing key " if isinstance(error, KeyError) else ""
    return kind + (text if len(text) <= 300 else text[:297] + "…")

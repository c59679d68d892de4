"""Models of mlx-audio that transcribe a window of audio. MLX thread only.

A family is a module of `families` with `MODULES`, what to import for it, and `open_model(model, path)`, which
returns a TranscriptionModel. Its weights are loaded here, so that no code of a model's directory runs and no
hub is asked: the hooks of mlx-audio do both.
"""

import importlib
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import mlx.core as mx
import numpy as np

from mlxctl.engine.loading.audio_modules import give_weights, read_config, read_tensors
from mlxctl.engine.wire.jobs import AudioWindow, TranscribedWindow

T = TypeVar("T")
_Call = tuple[tuple[Any, ...], dict[str, Any]]
_SLICE_SECONDS = 0.005
_FAMILIES = "mlxctl.engine.audio.families"


class TranscriptionModel(Protocol):
    """A loaded model. `transcribe` yields after every unit of work."""

    def transcribe(self, window: AudioWindow) -> Generator[None, None, TranscribedWindow]: ...


def family_module(family: str) -> Any:
    """Return the module of a family, which is imported fast."""
    return importlib.import_module(f"{_FAMILIES}.{family}")


def open_model(path: Path, package: str) -> Any:
    """Return mlx-audio's model at `path`, its parameters not yet read.

    Raises ValueError for weights that do not fit its layers.
    """
    module: Any = importlib.import_module(package)
    config, weights = read_config(path), read_tensors(path)
    model = module.Model(module.ModelConfig.from_dict(config))
    if hasattr(model, "sanitize"):
        weights = model.sanitize(weights)
    # The model of some families is wrapped, and the wrapper is no module.
    layers = getattr(model, "_model", model)
    give_weights(layers, weights, config)
    return layers


def float_samples(window: AudioWindow) -> Any:
    """Return a window's samples as float32 from -1 to 1."""
    return np.frombuffer(window.samples, np.int16).astype(np.float32) / 32768


class _Recorded(Exception):
    pass


def by_layers(
    owner: Any, run: Callable[[], T], lists: Sequence[str] = ("layers",)
) -> Generator[None, None, T]:
    """Return what `run` returns, with a pause after each layer.

    One layer of `owner` is evaluated at a time.
    `run` calls the layers in the attributes `lists`, in order, each with the states as its first argument. It
    begins once for each list, to find the arguments of its layers, and ends once, with the final states: what
    it computes before and after the layers has to be lazy, and the same each time.
    """
    original = {name: getattr(owner, name) for name in lists if getattr(owner, name)}
    try:
        for name, layers in original.items():
            calls = _calls_of(owner, name, len(layers), run)
            states = calls[0][0][0]
            mx.eval(states)
            yield
            for layer, ((_, *others), options) in zip(layers, calls, strict=True):
                states = layer(states, *others, **options)
                mx.eval(states)
                yield
            setattr(owner, name, [lambda *_, _states=states, **__: _states])
        return run()
    finally:
        for name, layers in original.items():
            setattr(owner, name, layers)


def _calls_of(owner: Any, name: str, num_layers: int, run: Callable[[], object]) -> list[_Call]:
    """Return the arguments that `run` gives to each layer.

    The states are those of the first layer.
    """
    calls: list[_Call] = []

    def record(states: mx.array, *others: Any, **options: Any) -> mx.array:
        calls.append(((states, *others), options))
        if len(calls) == num_layers:
            raise _Recorded
        return states

    setattr(owner, name, [record] * num_layers)
    with suppress(_Recorded):
        run()
    return calls


def in_thread(work: Callable[[], T]) -> Generator[None, None, T]:
    """Return what `work` returns; it runs on another thread.

    It uses no MLX. This thread yields meanwhile.
    """
    helper = ThreadPoolExecutor(max_workers=1, thread_name_prefix="audio")
    coming = helper.submit(work)
    helper.shutdown(wait=False)
    while not coming.done():
        wait([coming], timeout=_SLICE_SECONDS)
        yield
    return coming.result()


class TokenChoice:
    """Chooses tokens, greedily or sampled.

    The same window always gives the same tokens.
    """

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature
        self._generator = np.random.default_rng(0)

    def choose(self, logits: mx.array) -> int:
        """Return the next token by logits (vocabulary,)."""
        scores: Any = np.array(logits.astype(mx.float32))
        if not np.isfinite(scores.max()):
            raise ValueError("the model's logits are not finite")
        if self._temperature:
            scores = scores / self._temperature + self._generator.gumbel(size=len(scores))
        return int(scores.argmax())

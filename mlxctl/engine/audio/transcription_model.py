"""Models of mlx-audio that transcribe a window of audio. MLX thread only.

A family is a module of `families` with `MODULES`, what to import for it, and `open_model(model, path)`, which
returns a TranscriptionModel. Its weights are loaded here, so that no code of a model's directory runs and no
hub is asked: the hooks of mlx-audio do both.
"""

import importlib
import math
from collections.abc import Callable, Container, Generator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Protocol, TypeVar

import mlx.core as mx
import numpy as np

from mlxctl.engine.loading.audio_modules import give_weights, read_config, read_tensors
from mlxctl.engine.wire.jobs import AudioWindow, TranscribedWindow
from mlxctl.ir.transcription import SAMPLE_BYTES, SAMPLE_RATE

T = TypeVar("T")
_SLICE_SECONDS = 0.005
# Of a second of audio: a fast speaker of a script that takes a token for each byte.
_TOKENS_A_SECOND = 25
_MIN_TOKENS = 64
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


def with_audio(embeddings: mx.array, is_audio: mx.array, states: mx.array) -> mx.array:
    """Return a prompt's embeddings with states of audio among them.

    The embeddings are (1, length, width).
    `is_audio` (length,) is true where they belong, `states` (places, width) are in order.
    """
    order = mx.maximum(mx.cumsum(is_audio.astype(mx.int32)) - 1, 0)
    rows = states.astype(embeddings.dtype)[order]
    merged = mx.where(is_audio[:, None], rows, embeddings[0])[None]
    mx.eval(merged)
    return merged


def write_tokens(
    window: AudioWindow, logits: mx.array, ends: Container[int], read: Callable[[mx.array], mx.array]
) -> Generator[None, None, list[int]]:
    """Choose the tokens of a window up to one of `ends`.

    A unit is one token. `logits` (1, length, vocabulary) choose the first one, those of `read`, which takes a
    token (1, 1), the next ones.
    """
    choice, written = TokenChoice(window.temperature), list[int]()
    while len(written) < max_tokens(window) and (token := choice.choose(logits[0, -1])) not in ends:
        written.append(token)
        yield
        logits = read(mx.array([[token]]))
    return written


def max_tokens(window: AudioWindow) -> int:
    """Return how many tokens a window may have, which bounds repetitions."""
    seconds = len(window.samples) / SAMPLE_BYTES / SAMPLE_RATE
    return math.ceil(_MIN_TOKENS + seconds * _TOKENS_A_SECOND)


class TokenChoice:
    """Chooses tokens, greedily or sampled.

    The same window always gives the same tokens.
    """

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature
        self._generator = np.random.default_rng(0)

    def choose(self, logits: mx.array) -> int:
        """Return the next token by logits (vocabulary,)."""
        return self._draw(np.array(logits.astype(mx.float32)))

    def choose_allowed(self, logits: mx.array, mask: Callable[[Any], None]) -> tuple[int, float]:
        """Return the next token and its log-probability among the allowed ones.

        `mask` sets the logits of others to -inf, in place.
        """
        scores: Any = np.array(logits.astype(mx.float32))
        mask(scores)
        scores -= scores.max()
        logprobs = scores - np.log(np.exp(scores).sum())
        token_id = self._draw(logprobs)
        return token_id, float(logprobs[token_id])

    def _draw(self, scores: Any) -> int:
        if not np.isfinite(scores.max()):
            raise ValueError("the model's logits are not finite")
        if self._temperature:
            scores = scores / self._temperature + self._generator.gumbel(size=len(scores))
        return int(scores.argmax())

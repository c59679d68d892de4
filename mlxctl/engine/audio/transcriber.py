"""A loaded model that writes down speech: a window of sound at a time, in units that others can wait for.

MLX thread only.

A unit is the spectrum with its two convolutions, one layer over the sound, or one token; between two of them
nothing is pending.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from mlxctl.engine.wire.messages import AudioWindow
from mlxctl.ir import TranscriptionRecipe

# The first timestamp lies in the first second of a window, as in OpenAI's implementation.
_LATEST_BEGIN_STEPS = 50


@dataclass(slots=True, kw_only=True)
class Transcript:
    """What was written of a window so far.

    `no_speech` is how likely it is that nobody speaks, by the model.
    """

    token_ids: list[int] = field(default_factory=list)
    language_id: int | None = None
    sum_logprobs: float = 0.0
    no_speech: float = 0.0

    @property
    def mean_logprob(self) -> float:
        """How likely the tokens are, the end among them."""
        return self.sum_logprobs / (len(self.token_ids) + 1)


class Transcriber:
    """Writes windows down, greedily or by chance."""

    def __init__(self, model: Any, recipe: TranscriptionRecipe) -> None:
        self._model = model
        self._recipe = recipe
        self._rules = TokenRules(recipe)
        self._max_tokens = recipe.context_length // 2

    def transcribe(self, window: AudioWindow) -> Generator[None, None, Transcript]:
        """Write down a window, and pause after every unit. The same window is always written the same."""
        heard = yield from self._listen(window.samples)
        writing = Transcript(language_id=window.language_id)
        if writing.language_id is None and self._recipe.languages:
            writing.language_id = self._language(heard)
            yield
        chance = np.random.default_rng(0)
        prompt = self._prompt(window, writing.language_id)
        logits, caches, _ = self._model.decoder(mx.array([prompt]), heard)
        writing.no_speech = self._no_speech(logits[0, prompt.index(self._recipe.start)])
        while True:
            mx.eval(logits, caches)
            token_id, logprob = self._choose(logits[0, -1], writing.token_ids, window.temperature, chance)
            writing.sum_logprobs += logprob
            if token_id == self._recipe.end:
                return writing
            writing.token_ids.append(token_id)
            if len(writing.token_ids) >= self._max_tokens:
                return writing
            yield
            logits, caches, _ = self._model.decoder(mx.array([[token_id]]), heard, kv_cache=caches)

    def _listen(self, samples: bytes) -> Generator[None, None, mx.array]:
        """Return the states (1, steps, width) of a window, whose end is silence if it is too short."""
        from mlx_audio.stt.models.whisper.audio import log_mel_spectrogram

        encoder = self._model.encoder
        sound: Any = np.zeros(self._recipe.window_samples, dtype=np.float32)
        given = np.frombuffer(samples, dtype=np.int16)[: len(sound)]
        sound[: len(given)] = given / 32768
        spectrum = log_mel_spectrogram(mx.array(sound), n_mels=self._model.dims.n_mels)[None].astype(
            self._model.dtype
        )
        states = nn.gelu(encoder.conv2(nn.gelu(encoder.conv1(spectrum)))) + encoder._positional_embedding  # noqa: SLF001
        mx.eval(states)
        yield
        for block in encoder.blocks:
            states, _, _ = block(states)
            mx.eval(states)
            yield
        heard: mx.array = encoder.ln_post(states)
        return heard

    def _language(self, heard: mx.array) -> int:
        ids = sorted(self._recipe.languages.values())
        logits, _, _ = self._model.decoder(mx.array([[self._recipe.start]]), heard)
        likeliest: Any = mx.argmax(logits[0, 0, mx.array(ids)]).item()
        language_id: int = ids[likeliest]
        return language_id

    def _prompt(self, window: AudioWindow, language_id: int | None) -> list[int]:
        """Return what stands before the text; of what was said before, the end, as much as leaves the text
        its room.
        """
        recipe = self._recipe
        room = recipe.context_length - self._max_tokens - 4
        previous = window.previous_ids[-room:] if room > 0 else []
        before = [recipe.previous, *previous] if previous else []
        task = recipe.translate if window.task == "translate" else recipe.transcribe
        return [*before, recipe.start, *([] if language_id is None else [language_id, task])]

    def _no_speech(self, logits: mx.array) -> float:
        if self._recipe.no_speech is None:
            return 0.0
        likelihood: Any = mx.softmax(logits.astype(mx.float32))[self._recipe.no_speech].item()
        return float(likelihood)

    def _choose(
        self, logits: mx.array, written: list[int], temperature: float, chance: Any
    ) -> tuple[int, float]:
        """Return the next token, and how likely it is among those that may come."""
        allowed: Any = np.array(logits.astype(mx.float32))
        self._rules.apply(allowed, written)
        highest = allowed.max()
        if not np.isfinite(highest):
            raise ValueError("the model gives no numbers to choose a token by")
        logprobs = allowed - highest - np.log(np.exp(allowed - highest).sum())
        scores = logprobs if not temperature else logprobs / temperature + chance.gumbel(size=len(logprobs))
        token_id = int(scores.argmax())
        return token_id, float(logprobs[token_id])


class TokenRules:
    """Takes out of the logits what must not come next.

    Every time is written twice, as the end of one and the start of the next.
    """

    def __init__(self, recipe: TranscriptionRecipe) -> None:
        marks = {recipe.start, recipe.previous, recipe.no_times, recipe.transcribe, recipe.translate}
        marks |= set() if recipe.no_speech is None else {recipe.no_speech}
        self._recipe = recipe
        self._never = sorted({*recipe.suppressed, *recipe.languages.values(), *marks} - {recipe.end})
        self._not_first = list(recipe.suppressed_first)

    def apply(self, logits: Any, written: Sequence[int]) -> None:
        """Set what must not follow `written` to minus infinity, in place.

        `logits` is a float32 array (vocabulary,).
        """
        logits[self._never] = -np.inf
        if not written:
            logits[self._not_first] = -np.inf
        first_time = self._recipe.first_time
        self._keep_pairs(logits, written)
        if not written:
            logits[:first_time] = -np.inf
            logits[first_time + _LATEST_BEGIN_STEPS + 1 :] = -np.inf
        # Where all times together are likelier than any word, it is a time, whichever.
        times = logits[first_time:]
        highest = times.max(initial=-np.inf)
        if highest > -np.inf and highest + np.log(np.exp(times - highest).sum()) > logits[:first_time].max():
            logits[:first_time] = -np.inf

    def _keep_pairs(self, logits: Any, written: Sequence[int]) -> None:
        """After the end of a segment comes a start, or the end of all; after its start a word; and time does
        not run backwards.
        """
        first_time = self._recipe.first_time
        times = [token_id for token_id in written if token_id >= first_time]
        if not times:
            return
        is_time, was_time = written[-1] >= first_time, len(written) < 2 or written[-2] >= first_time
        if is_time and was_time:
            logits[first_time:] = -np.inf
        elif is_time:
            logits[: self._recipe.end] = -np.inf
        earliest = times[-1] if is_time and not was_time else times[-1] + 1
        logits[first_time:earliest] = -np.inf

"""Transcribes an audio window with Whisper. MLX thread only.

A unit is the spectrogram with its two convolutions, one encoder layer, or one token; after each, everything
is evaluated.
"""

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from mlxctl.engine.audio.transcription_model import TokenChoice, float_samples
from mlxctl.engine.audio.word_times import token_times
from mlxctl.engine.wire.jobs import AudioWindow, TranscribedWindow
from mlxctl.ir import TranscriptionRecipe, WhisperTokens
from mlxctl.ir.transcription import SAMPLE_BYTES, STEP_SAMPLES

# The first timestamp lies in the first second of a window, as in OpenAI's implementation.
_LATEST_BEGIN_STEPS = 50


class Transcriber:
    """A loaded Whisper model with its recipe; greedy or sampled decoding."""

    def __init__(self, model: Any, recipe: TranscriptionRecipe) -> None:
        self._model = model
        assert recipe.whisper is not None, "only Whisper models are used here"
        self._tokens = recipe.whisper
        self._window_samples = recipe.window_samples
        self._rules = TokenRules(recipe.whisper)

    def transcribe(self, window: AudioWindow) -> Generator[None, None, TranscribedWindow]:
        """Transcribe a window; yield after every unit.

        The same window always gives the same transcript: sampling has a fixed seed.
        """
        states = yield from self._encode(window)
        language_id = window.language_id
        if language_id is None and self._tokens.languages:
            language_id = self._language(states, window.language_ids)
            yield
        choice = TokenChoice(window.temperature)
        prompt = self._prompt(window, language_id)
        logits, caches, _ = self._model.decoder(mx.array([prompt]), states)
        no_speech = self._no_speech(logits[0, prompt.index(self._tokens.start)])
        written: list[int] = []
        sum_logprobs = 0.0
        while True:
            mx.eval(logits, caches)
            token_id, logprob = choice.choose_allowed(
                logits[0, -1], partial(self._rules.apply, written=written)
            )
            sum_logprobs += logprob
            if token_id != self._tokens.end:
                written.append(token_id)
            if token_id == self._tokens.end or len(written) >= self._tokens.max_tokens:
                break
            yield
            logits, caches, _ = self._model.decoder(mx.array([[token_id]]), states, kv_cache=caches)
        times = (yield from self._times(window, states, language_id, written)) if window.word_times else []
        return TranscribedWindow(
            token_ids=written,
            language_id=language_id,
            # The end token counts.
            mean_logprob=sum_logprobs / (len(written) + 1),
            no_speech=no_speech,
            token_times=times,
        )

    def _times(
        self, window: AudioWindow, states: mx.array, language_id: int | None, written: Sequence[int]
    ) -> Generator[None, None, list[float]]:
        tokens = self._tokens
        text = [token_id for token_id in written if token_id < tokens.end]
        if not text:
            return []
        return (
            yield from token_times(
                self._model,
                states,
                before=[*tokens.start_of_transcript(language_id, window.task), tokens.no_times],
                text=text,
                end=tokens.end,
                heads=tokens.alignment_heads,
                num_steps=max(1, len(window.samples) // SAMPLE_BYTES // STEP_SAMPLES),
            )
        )

    def _encode(self, window: AudioWindow) -> Generator[None, None, mx.array]:
        """Return the encoder states (1, steps, width).

        Short audio is padded with silence.
        """
        from mlx_audio.stt.models.whisper.audio import log_mel_spectrogram

        encoder = self._model.encoder
        audio: Any = np.zeros(self._window_samples, dtype=np.float32)
        samples = float_samples(window)[: len(audio)]
        audio[: len(samples)] = samples
        spectrogram = log_mel_spectrogram(mx.array(audio), n_mels=self._model.dims.n_mels)[None].astype(
            self._model.dtype
        )
        states = nn.gelu(encoder.conv2(nn.gelu(encoder.conv1(spectrogram)))) + encoder._positional_embedding  # noqa: SLF001
        mx.eval(states)
        yield
        for block in encoder.blocks:
            states, _, _ = block(states)
            mx.eval(states)
            yield
        output: mx.array = encoder.ln_post(states)
        return output

    def _language(self, states: mx.array, among: Sequence[int]) -> int:
        ids = sorted(among or self._tokens.languages.values())
        logits, _, _ = self._model.decoder(mx.array([[self._tokens.start]]), states)
        best: Any = mx.argmax(logits[0, 0, mx.array(ids)]).item()
        language_id: int = ids[best]
        return language_id

    def _prompt(self, window: AudioWindow, language_id: int | None) -> list[int]:
        """Return the decoder's prompt: previous text, language and task tokens.

        The previous text is cut, so that the context has room for the transcript.
        """
        recipe = self._tokens
        previous = recipe.latest(window.previous_ids)
        before = [recipe.previous, *previous] if previous else []
        return [*before, *recipe.start_of_transcript(language_id, window.task)]

    def _no_speech(self, logits: mx.array) -> float:
        if self._tokens.no_speech is None:
            return 0.0
        likelihood: Any = mx.softmax(logits.astype(mx.float32))[self._tokens.no_speech].item()
        return float(likelihood)


class TokenRules:
    """Masks logits by Whisper's rules (arXiv:2212.04356, section 3.2).

    Timestamps come in pairs: the end of a segment and the start of the next.
    """

    def __init__(self, recipe: WhisperTokens) -> None:
        marks = {recipe.start, recipe.previous, recipe.no_times, recipe.transcribe, recipe.translate}
        marks |= set() if recipe.no_speech is None else {recipe.no_speech}
        self._recipe = recipe
        self._never = sorted({*recipe.suppressed, *recipe.languages.values(), *marks} - {recipe.end})
        self._not_first = list(recipe.suppressed_first)

    def apply(self, logits: Any, written: Sequence[int]) -> None:
        """Set logits of tokens that must not follow to -inf, in place.

        `written` are the tokens so far. `logits` is a float32 array (vocabulary,).
        """
        logits[self._never] = -np.inf
        if not written:
            logits[self._not_first] = -np.inf
        first_time = self._recipe.first_time
        self._keep_pairs(logits, written)
        if not written:
            logits[:first_time] = -np.inf
            logits[first_time + _LATEST_BEGIN_STEPS + 1 :] = -np.inf
        # Where all timestamps together are likelier than any text token, text tokens are masked.
        times = logits[first_time:]
        highest = times.max(initial=-np.inf)
        if highest > -np.inf and highest + np.log(np.exp(times - highest).sum()) > logits[:first_time].max():
            logits[:first_time] = -np.inf

    def _keep_pairs(self, logits: Any, written: Sequence[int]) -> None:
        """Mask tokens that break the order of timestamps.

        After a segment's end comes a start or the end of the text, after a start comes text, and times do not
        decrease.
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

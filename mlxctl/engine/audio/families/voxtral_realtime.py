"""Voxtral Realtime: a causal encoder and a synchronous decoder.

A token stands for 80 ms of audio. The text comes a fixed delay after the audio, so that silence is added
before and after a window.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlxctl.engine.audio.tekken import Tekken
from mlxctl.engine.audio.transcription_model import TokenChoice, TranscriptionModel, float_samples
from mlxctl.engine.layerwise import by_layers
from mlxctl.engine.wire.jobs import AudioWindow, TranscribedWindow

PACKAGE = "mlx_audio.stt.models.voxtral_realtime"
MODULES = (PACKAGE, "mlx_audio.lm.models.cache")


def open_model(model: Any, path: Path) -> TranscriptionModel:
    """Return the model, ready to transcribe.

    The hook of this family reads files only.
    """
    return _VoxtralRealtime(type(model).post_load_hook(model, path), Tekken(path))


class _VoxtralRealtime:
    def __init__(self, model: Any, tokenizer: Tekken) -> None:
        self._model, self._tokenizer = model, tokenizer

    def transcribe(self, window: AudioWindow) -> Generator[None, None, TranscribedWindow]:
        """Transcribe a window.

        A unit is the spectrogram, a layer of the encoder or of the prompt, or a token.
        """
        decoder, config = self._model.decoder, self._model.config
        spectrogram, num_delay = self._model._prepare_mel(float_samples(window))  # noqa: SLF001
        mx.eval(spectrogram)
        yield
        states = yield from self._encode(spectrogram)
        pads = [config.streaming_pad_token_id] * (config.n_left_pad_tokens + num_delay)
        position = len(pads) + 1
        prompt = states[:position] + decoder.embed_tokens(mx.array([config.bos_token_id, *pads]))
        caches = decoder.make_cache()
        hidden, _ = yield from by_layers(lambda: decoder.forward(prompt, 0, caches), (decoder, "layers"))
        choice, written = TokenChoice(window.temperature), list[int]()
        while (token := choice.choose(decoder.logits(hidden[-1]))) != config.eos_token_id:
            written.append(token)
            if position >= states.shape[0]:
                break
            yield
            embedding = states[position] + decoder.embed_token(token)
            hidden, _ = decoder.forward(embedding[None], position, caches)
            position += 1
        return TranscribedWindow(token_ids=written, text=self._tokenizer.decode(written).strip())

    def _encode(self, spectrogram: mx.array) -> Generator[None, None, mx.array]:
        """Return the encoder's states (tokens, width).

        The attention's window slides: longer audio is computed in parts of its size.
        """
        from mlx_audio.lm.models.cache import RotatingKVCache

        encoder = self._model.encoder
        features = encoder.conv_stem(spectrogram)
        size = encoder.config.sliding_window
        caches = [RotatingKVCache(max_size=size, keep=0) for _ in encoder.transformer_layers]
        parts: list[mx.array] = []
        for start in range(0, features.shape[0], size):
            part = features[start : start + size]
            mask = caches[0].make_mask(part.shape[0], window_size=size)
            for layer, cache in zip(encoder.transformer_layers, caches, strict=True):
                part = layer(part, start, mask, cache=cache)
                mx.eval(part)
                yield
            parts.append(encoder.transformer_norm(part))
        states: mx.array = encoder.downsample_and_project(mx.concatenate(parts))
        mx.eval(states)
        return states

"""Parakeet: a conformer encoder with a transducer or CTC decoder.

Its tokens have times.
Greedy, as in NeMo. TDT (arXiv:2304.06795) predicts with each token how many encoder steps it skips.
"""

from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlxctl.engine.audio.transcription_model import TranscriptionModel, float_samples
from mlxctl.engine.layerwise import by_layers
from mlxctl.engine.wire.jobs import AudioWindow, TranscribedWindow
from mlxctl.ir.transcription import TimedWord

PACKAGE = "mlx_audio.stt.models.parakeet.parakeet"
MODULES = (PACKAGE,)

# NeMo's own bound, for a decoder that stays at one step.
_MOST_TOKENS_AT_A_STEP = 10


def open_model(model: Any, path: Path) -> TranscriptionModel:  # noqa: ARG001 -- its vocabulary is in config.json
    """Return the model, ready to transcribe."""
    return _Parakeet(model)


class _Parakeet:
    def __init__(self, model: Any) -> None:
        self._model = model
        preprocessor = model.preprocessor_config
        self._step_seconds = (
            model.encoder_config.subsampling_factor * preprocessor.hop_length / preprocessor.sample_rate
        )
        self._dtype = model.encoder.layers[0].norm_out.weight.dtype
        self._blank = len(model.vocabulary)

    def transcribe(self, window: AudioWindow) -> Generator[None, None, TranscribedWindow]:
        """Transcribe a window.

        A unit is the spectrogram, a layer, or a token.
        """
        model = self._model
        # The spectrogram is computed in float32: in bfloat16 samples lose 8 of their 16 bits.
        spectrogram = model._log_mel_spectrogram(mx.array(float_samples(window))).astype(self._dtype)  # noqa: SLF001
        mx.eval(spectrogram)
        yield
        features, lengths = yield from by_layers(
            lambda: model.encoder(spectrogram), (model.encoder, "layers")
        )
        mx.eval(features, lengths)
        num_steps = int(lengths[0])
        if hasattr(model, "durations"):
            found = yield from self._tdt(features, num_steps)
        elif hasattr(model, "joint"):
            found = yield from self._transducer(features, num_steps)
        else:
            found = self._ctc(features, num_steps)
        words = self._words(found)
        return TranscribedWindow(
            token_ids=[token for token, _, _ in found], text="".join(word.text for word in words), words=words
        )

    def _tdt(self, features: mx.array, num_steps: int) -> Generator[None, None, list[tuple[int, int, int]]]:
        """Return tokens with their encoder steps: first, and after the last."""
        model, found = self._model, []
        at_once = model.max_symbols or _MOST_TOKENS_AT_A_STEP
        token, step, num_here = self._blank, 0, 0
        state = model._make_initial_decoder_state(1, features.dtype)  # noqa: SLF001
        while step < num_steps:
            predicted, duration, *new_state = model._tdt_step(  # noqa: SLF001
                features[:, step : step + 1], mx.array([[token]], dtype=mx.int32), *state
            )
            mx.eval(predicted, duration, new_state)
            skipped = model.durations[int(duration)]
            if int(predicted) != self._blank:
                token, state = int(predicted), new_state
                found.append((token, step, step + skipped))
            num_here = 0 if skipped else num_here + 1
            step += skipped
            if num_here >= at_once:
                step, num_here = step + 1, 0
            yield
        return found

    def _transducer(
        self, features: mx.array, num_steps: int
    ) -> Generator[None, None, list[tuple[int, int, int]]]:
        model, found = self._model, []
        at_once = model.max_symbols or _MOST_TOKENS_AT_A_STEP
        token: int | None = None
        state: Any = None
        step, num_here = 0, 0
        while step < num_steps:
            last = None if token is None else mx.array([[token]], dtype=mx.int32)
            output, (hidden, cell) = model.decoder(last, state)
            joint = model.joint(features[:, step : step + 1], output.astype(features.dtype))
            predicted = mx.argmax(joint)
            mx.eval(predicted, hidden, cell)
            if int(predicted) == self._blank:
                step, num_here = step + 1, 0
            else:
                token = int(predicted)
                state = (hidden.astype(features.dtype), cell.astype(features.dtype))
                found.append((token, step, step + 1))
                num_here += 1
                if num_here >= at_once:
                    step, num_here = step + 1, 0
            yield
        return found

    def _ctc(self, features: mx.array, num_steps: int) -> list[tuple[int, int, int]]:
        best: list[int] = mx.argmax(self._model.decoder(features)[0, :num_steps], axis=-1).tolist()  # type: ignore[assignment]
        found: list[tuple[int, int, int]] = []
        before = self._blank
        for step, token in enumerate(best):
            if token == before != self._blank:
                found[-1] = (token, found[-1][1], step + 1)
            elif token != self._blank:
                found.append((token, step, step + 1))
            before = token
        return found

    def _words(self, found: Iterable[tuple[int, int, int]]) -> list[TimedWord]:
        """Return words of the tokens.

        A token that begins with a space begins a word.
        """
        words: list[TimedWord] = []
        for token, first, end in found:
            piece = self._model.vocabulary[token]
            if (piece.startswith("<|") and piece.endswith("|>")) or piece in ("<unk>", "<pad>"):
                continue
            text = piece.replace("▁", " ")
            start, stop = first * self._step_seconds, end * self._step_seconds
            if words and not text.startswith(" "):
                last = words.pop()
                words.append(TimedWord(text=last.text + text, start=last.start, end=max(last.end, stop)))
            else:
                words.append(TimedWord(text=text, start=start, end=stop))
        return words

"""Qwen3-TTS: a talker that writes codes, and a causal decoder.

MLX thread only. A unit is one frame (80 ms) of every request together, or the sound of some frames of one.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from mlxctl.engine.loading.audio_modules import give_weights, open_tokenizer, read_config, read_tensors
from mlxctl.engine.speech.batch import SPEECH_ERRORS, Sound, SpeechBatch, failed, report
from mlxctl.engine.speech.streaming_state import with_own_state
from mlxctl.engine.wire.jobs import Speak, Spoken
from mlxctl.ir import SpeechRecipe
from mlxctl.ir.speech import QWEN3_TTS_MAX_FRAMES

MODULES = ("mlx_audio.tts.models.qwen3_tts.qwen3_tts", "transformers")
# A policy: the first sound comes after a third of a second of speech.
_FRAMES_PER_SOUND = 4
_MAX_ROWS = 8
# Those of mlx-audio.
_PENALTY_TOKENS = 64
_CLONE_PENALTY = 1.5
# Codec ids from here to the end of the vocabulary are marks, not sounds.
_NUM_MARKS = 1024
_ENCODER = "encoder_model."


def open_model(path: Path) -> Any:
    """Return the model at `path` with its speech tokenizer.

    Their parameters are not yet read. Raises ValueError for weights that do not fit its layers.
    """
    from mlx_audio.tts.models.qwen3_tts.qwen3_tts import Model, ModelConfig

    config = read_config(path)
    model = Model(ModelConfig.from_dict(config))
    give_weights(model, model.sanitize(read_tensors(path)), config)
    model.tokenizer = open_tokenizer(path)
    generation = path / "generation_config.json"
    if generation.is_file():
        import json

        model.load_generate_config(json.loads(generation.read_text(encoding="utf-8")))
    model.load_speech_tokenizer(_open_speech_tokenizer(path / "speech_tokenizer"))
    return model


def _open_speech_tokenizer(path: Path) -> Any:
    """Return the codec; its encoder is left out where weights are."""
    from mlx_audio.tts.models.qwen3_tts.config import Qwen3TTSTokenizerConfig, filter_dict_for_dataclass
    from mlx_audio.tts.models.qwen3_tts.speech_tokenizer import Qwen3TTSSpeechTokenizer

    def create() -> Any:
        values = filter_dict_for_dataclass(Qwen3TTSTokenizerConfig, config)
        return Qwen3TTSSpeechTokenizer(Qwen3TTSTokenizerConfig(**values))

    config = read_config(path)
    weights = Qwen3TTSSpeechTokenizer.sanitize(read_tensors(path))
    codec = create()
    own = dict(tree_flatten(codec.parameters()))
    # mlx-audio leaves out these flags of training.
    weights |= {name: value for name, value in own.items() if name.endswith(".initialized")}
    if any(name.startswith(_ENCODER) and name not in weights for name in own):
        del config["encoder_config"]
        codec = create()
    give_weights(codec, weights, config)
    if codec.encoder_model is not None:
        quantizer = codec.encoder_model.quantizer
        for layer in (*quantizer.rvq_first.vq.layers, *quantizer.rvq_rest.vq.layers):
            layer.codebook.update_in_place()
    return codec


def create_batch(model: Any, recipe: SpeechRecipe) -> SpeechBatch:
    """Return the model's requests, which are computed together."""
    return _Qwen3Batch(model, recipe)


@dataclass(slots=True, kw_only=True)
class _Row:
    """A request; `key` is the state of its random numbers, uint32 (2,).

    `state` is mlx-audio's, None before its prompt is computed.
    """

    job: Speak
    key: mx.array
    decoder: Any
    penalty: float
    num_text_tokens: int = 0
    num_decoded: int = 0
    state: Any = None
    is_finished: bool = False

    @property
    def num_waiting(self) -> int:
        """Frames without sound."""
        return 0 if self.state is None else len(self.state.generated_codes) - self.num_decoded


class _Qwen3Batch:
    """Requests of one model, a frame of all in each step.

    Batching is mlx-audio's session. It draws with one random state for all rows, so drawing is here: each
    row has a key, and its codes do not depend on the other rows.
    """

    max_rows = _MAX_ROWS

    def __init__(self, model: Any, recipe: SpeechRecipe) -> None:
        from mlx_audio.tts.continuous import TTSBatchOptions

        self._model, self._recipe = model, recipe
        self._rows: dict[int, _Row] = {}
        options = model._resolve_generation_options(None, None, None, None, None)  # noqa: SLF001
        self._temperature, self._top_k, self._top_p = (
            options["temperature"], options["top_k"], options["top_p"],
        )  # fmt: skip
        self._penalty = options["repetition_penalty"]
        self._max_frames: int = min(options["max_tokens"], QWEN3_TTS_MAX_FRAMES)
        self._session = model.create_tts_batch_session(TTSBatchOptions(**options, max_batch_size=_MAX_ROWS))
        self._session._sample_code_tokens = self._draw_codes  # noqa: SLF001
        self._session._decode_state = self._finish  # noqa: SLF001
        self._drawn: list[_Row] = []
        vocabulary: Any = np.zeros(model.config.talker_config.vocab_size, dtype=bool)
        vocabulary[max(0, len(vocabulary) - _NUM_MARKS) :] = True
        vocabulary[model.config.talker_config.codec_eos_token_id] = False
        self._is_mark = mx.array(vocabulary)

    @property
    def num_rows(self) -> int:
        return len(self._rows)

    def add(self, job: Speak) -> None:
        self._rows[job.job_id] = _Row(
            job=job,
            key=mx.random.key(job.seed),
            decoder=with_own_state(self._model.speech_tokenizer.decoder),
            penalty=self._penalty if job.reference is None else max(self._penalty, _CLONE_PENALTY),
        )

    def drop(self, ids: AbstractSet[int]) -> None:
        for job_id in ids & self._rows.keys():
            del self._rows[job_id]
            self._session.cancel(job_id)

    def step(self) -> list[Spoken]:
        rows = self._rows.values()
        ready = (row for row in rows if row.num_waiting >= _FRAMES_PER_SOUND or row.is_finished)
        one = next(ready, None) or next((row for row in rows if row.state is None), None)
        try:
            if one is None:
                self._advance()
                return [Spoken(job_id=next(iter(self._rows)))]
            if one.state is None:
                self._begin(one)
                return [Spoken(job_id=one.job.job_id)]
            return self._decode(one)
        except SPEECH_ERRORS as error:
            ended = list(self._rows.values()) if one is None else [one]
            self.drop({row.job.job_id for row in ended})
            return [failed(row.job, error) for row in ended]

    def _begin(self, row: _Row) -> None:
        """Compute the prompt of a request, and its first frame."""
        from mlx_audio.tts.models.qwen3_tts.continuous_batching import _ActiveRequest

        model, job = self._model, row.job
        prompt, trailing, pad = self._prompt(job)
        row.num_text_tokens = len(model.tokenizer.encode(job.text))
        cache = model.talker.make_cache()
        logits, hidden = model.talker(prompt, cache=cache)
        self._drawn = [row]
        first, codes, all_codes = self._draw_codes(logits, hidden, generated_tokens_per_seq=[[]])
        following = trailing[:, :1] if trailing.shape[1] else pad
        row.state = _ActiveRequest(
            sequence_id=job.job_id,
            text=job.text,
            voice=job.voice,
            instruct=job.instructions,
            cache=cache,
            input_embeds=following + model._codec_embeds_for_tokens(codes),  # noqa: SLF001
            trailing_text_hidden=trailing,
            tts_pad_embed=pad,
            trailing_idx=1,
        )
        code: Any = first.item()
        if code == self._session.eos_token_id:
            row.is_finished = True
            return
        row.state.generated_token_ids.append(code)
        row.state.generated_codes.append(all_codes)
        self._session._active.append(row.state)  # noqa: SLF001

    def _prompt(self, job: Speak) -> tuple[mx.array, mx.array, mx.array]:
        """Return the embeddings of prompt, following text, and padding."""
        language = job.language or "auto"
        if job.reference is None:
            prompt: tuple[mx.array, mx.array, mx.array] = self._model._prepare_generation_inputs(  # noqa: SLF001
                job.text,
                language=language,
                speaker=job.voice or self._recipe.default_voice,
                instruct=job.instructions,
            )
            return prompt
        if not self._model.speech_tokenizer.has_encoder:
            raise ValueError("the model's speech tokenizer has no encoder, so it cannot clone a voice")
        samples = mx.array(np.frombuffer(job.reference.samples, "<f4"))
        try:
            *prepared, _ = self._model._prepare_icl_generation_inputs(  # noqa: SLF001
                job.text, ref_audio=samples, ref_text=job.reference.text, language=language
            )
        finally:
            # It would keep the codes of every reference.
            self._model._icl_cache.clear()  # noqa: SLF001
        return (prepared[0], prepared[1], prepared[2])

    def _advance(self) -> None:
        """Compute one frame of every row."""
        session = self._session
        self._drawn = [self._rows[state.sequence_id] for state in session._active]  # noqa: SLF001
        session._advance_active()  # noqa: SLF001
        mx.eval([row.state.input_embeds for row in self._drawn], [row.key for row in self._drawn])
        for row in self._drawn:
            row.is_finished = row.is_finished or len(row.state.generated_codes) >= self._max_frames

    def _decode(self, row: _Row) -> list[Spoken]:
        """Return the sound of a row's next frames, and its end."""
        codes = row.state.generated_codes[row.num_decoded : row.num_decoded + _FRAMES_PER_SOUND]
        spoken: list[Spoken] = []
        if codes:
            samples = row.decoder.streaming_step(mx.stack(codes, axis=1).transpose(0, 2, 1))[0, 0]
            mx.eval(samples)
            sound = Sound(samples=samples, num_text_tokens=row.num_text_tokens, num_audio_tokens=len(codes))
            row.num_text_tokens, row.num_decoded = 0, row.num_decoded + len(codes)
            spoken.append(report(row.job, sound))
        if row.is_finished and not row.num_waiting:
            self.drop({row.job.job_id})
            spoken.append(Spoken(job_id=row.job.job_id, is_last=True))
        return spoken

    def _finish(self, state: Any) -> Any:
        """Note the end of a row's frames.

        They get their sound one after the other.
        """
        self._rows[state.sequence_id].is_finished = True
        return self._session._empty_event(state.sequence_id)  # noqa: SLF001

    def _draw_codes(
        self, logits: mx.array, hidden: mx.array, *, generated_tokens_per_seq: list[list[int]]
    ) -> tuple[mx.array, list[mx.array], mx.array]:
        """Draw the codes of one frame of the rows in `_drawn`.

        As mlx-audio's `generate` does. `generated_tokens_per_seq` are the first codes of the rows so far.
        Returns the first codes (rows, 1), the codes of each group, and all of them (rows, groups).
        """
        talker, config = self._model.talker, self._model.config.talker_config
        first = self._draw(self._allowed(logits[:, -1], generated_tokens_per_seq))
        codes, cache = [first], talker.code_predictor.make_cache()
        for group in range(config.num_code_groups - 1):
            if group == 0:
                given = mx.concatenate([hidden[:, -1:], talker.get_input_embeddings()(first)], axis=1)
            else:
                given = talker.code_predictor.codec_embedding[group - 1](codes[-1])
            predicted, cache, _ = talker.code_predictor(given, cache=cache, generation_step=group)
            codes.append(self._draw(predicted[:, -1]))
        return first, codes, mx.concatenate(codes, axis=1)

    def _allowed(self, logits: mx.array, written: list[list[int]]) -> mx.array:
        """Mask marks, and penalize codes that were written lately."""
        logits = mx.where(self._is_mark, -mx.inf, logits)
        recent: Any = np.zeros(logits.shape, dtype=bool)
        for index, ids in enumerate(written):
            recent[index, ids[-_PENALTY_TOKENS:]] = True
        penalties = mx.array([[row.penalty] for row in self._drawn], dtype=logits.dtype)
        penalized = mx.where(logits < 0, logits * penalties, logits / penalties)
        return mx.where(mx.array(recent), penalized, logits)

    def _draw(self, logits: mx.array) -> mx.array:
        """Draw a code for each row, (rows, 1), with its key."""
        if self._temperature <= 0:
            return mx.argmax(logits, axis=-1, keepdims=True)
        from mlx_audio.lm.sample_utils import apply_top_k
        from mlx_audio.tts.models.qwen3_tts.qwen3_tts import _apply_probability_filters

        logits = logits / self._temperature if self._temperature != 1 else logits
        if 0 < self._top_k < logits.shape[-1]:
            logits = apply_top_k(logits, self._top_k)
        logits = _apply_probability_filters(logits, self._top_p, 0.0)
        drawn = []
        for index, row in enumerate(self._drawn):
            row.key, key = mx.random.split(row.key)
            drawn.append(mx.random.categorical(logits[index : index + 1], key=key))
        return mx.stack(drawn)

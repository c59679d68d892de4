"""Requests of Qwen3-TTS, computed together.

MLX thread only. A unit is a prompt, a frame of 80 ms of all requests, or the sound of some frames.
"""

from collections.abc import Generator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.speech.batch import SPEECH_ERRORS, Sound, Unit, failed, report
from mlxctl.engine.speech.qwen3_codec import Codec, CodecState
from mlxctl.engine.speech.qwen3_prompt import prompt_of
from mlxctl.engine.wire.jobs import Speak, Spoken
from mlxctl.ir import SpeechRecipe
from mlxctl.ir.speech import QWEN3_TTS_MAX_FRAMES

# A policy: the first sound comes after a third of a second of speech.
_FRAMES_PER_SOUND = 4
_MAX_ROWS = 8
# Those of mlx-audio.
_PENALTY_TOKENS = 64
_CLONE_PENALTY = 1.5
# Codec ids from here to the end of the vocabulary are marks, not sounds.
_NUM_MARKS = 1024


@dataclass(slots=True, kw_only=True, eq=False)
class _Row:
    """A request; `key` is the state of its random numbers, uint32 (2,).

    `given` (1, 1, width) is the talker's next input, None before the prompt is computed. `caches` are those
    of the talker while the row is not in the batch. `following` (1, places, width) are the embeddings of the
    text after it. `written` are the first codes of its frames, `waiting` all codes (1, groups) of the frames
    without sound.
    """

    job: Speak
    key: mx.array
    sound: CodecState
    penalty: float
    num_text_tokens: int = 0
    caches: list[Any] = field(default_factory=list)
    length: int = 0
    given: Any = None
    following: Any = None
    padding: Any = None
    written: list[int] = field(default_factory=list)
    waiting: list[mx.array] = field(default_factory=list)
    is_finished: bool = False

    def next_text(self) -> Any:
        """Return the next embedding of the text, (1, 1, width)."""
        if not self.following.shape[1]:
            return self.padding
        first, self.following = self.following[:, :1], self.following[:, 1:]
        return first


class Qwen3Batch:
    """Requests of one model.

    Each has its random numbers: its codes do not depend on the others. All have as many frames without sound,
    so that they become sound together: a request begins when the others have one, as it has then.
    """

    max_rows = _MAX_ROWS

    def __init__(self, model: Any, recipe: SpeechRecipe) -> None:
        self._model, self._recipe = model, recipe
        self._rows: dict[int, _Row] = {}
        self._codec = Codec(model.speech_tokenizer.decoder)
        self._unit: Unit | None = None
        self._unit_rows: Sequence[_Row] = ()
        # The rows whose caches are those of the batch.
        self._joined: list[_Row] = []
        self._caches: list[Any] = []
        options = model._resolve_generation_options(None, None, None, None, None)  # noqa: SLF001
        self._temperature, self._top_k, self._top_p = (
            options["temperature"], options["top_k"], options["top_p"],
        )  # fmt: skip
        self._penalty = options["repetition_penalty"]
        self._max_frames: int = min(options["max_tokens"], QWEN3_TTS_MAX_FRAMES)
        config = model.config.talker_config
        self._end = config.codec_eos_token_id
        vocabulary: Any = np.zeros(config.vocab_size, dtype=bool)
        vocabulary[max(0, len(vocabulary) - _NUM_MARKS) :] = True
        vocabulary[self._end] = False
        self._is_mark = mx.array(vocabulary)

    @property
    def num_rows(self) -> int:
        return len(self._rows)

    def add(self, job: Speak) -> None:
        self._rows[job.job_id] = _Row(
            job=job,
            key=mx.random.key(job.seed),
            sound=self._codec.begin(),
            penalty=self._penalty if job.reference is None else max(self._penalty, _CLONE_PENALTY),
        )

    def drop(self, ids: AbstractSet[int]) -> None:
        for job_id in ids & self._rows.keys():
            del self._rows[job_id]
        if not self._open(self._unit_rows):
            self._unit = None
        if not self._rows:
            self._joined, self._caches = [], []

    def step(self, *, finely: bool) -> list[Spoken]:
        if self._unit is None:
            self._unit = self._next_unit()
        try:
            while True:
                pending = next(self._unit)
                if pending is None:
                    return []
                if finely:
                    mx.eval(pending)
                    return []
        except StopIteration as end:
            self._unit = None
            spoken: list[Spoken] = end.value
            return spoken
        except SPEECH_ERRORS as error:
            self._unit = None
            ended = self._open(self._unit_rows)
            self.drop({row.job.job_id for row in ended})
            return [failed(row.job, error) for row in ended]

    def _next_unit(self) -> Unit:
        rows = list(self._rows.values())
        begun = [row for row in rows if row.given is not None]
        due = [row for row in begun if row.is_finished or len(row.waiting) >= _FRAMES_PER_SOUND]
        new = next((row for row in rows if row.given is None), None)
        if due:
            num_frames = min(len(due[0].waiting), _FRAMES_PER_SOUND)
            self._unit_rows = [row for row in due if min(len(row.waiting), _FRAMES_PER_SOUND) == num_frames]
            return self._decode(self._unit_rows, num_frames)
        if new is not None and all(len(row.waiting) == 1 for row in begun):
            self._unit_rows = [new]
            return self._begin(new)
        self._unit_rows = begun
        return self._advance(begun)

    def _open(self, rows: Sequence[_Row]) -> list[_Row]:
        """Return the rows that were not dropped."""
        return [row for row in rows if row.job.job_id in self._rows]

    def _begin(self, row: _Row) -> Unit:
        """Compute the prompt of a request, and its first frame."""
        model, job = self._model, row.job
        prompt, row.following, row.padding = yield from prompt_of(model, job, self._recipe)
        yield [prompt]
        row.num_text_tokens = len(model.tokenizer.encode(job.text))
        caches = model.talker.make_cache()
        logits, hidden = model.talker(prompt, cache=caches)
        yield [logits, hidden]
        codes = yield from self._draw_codes([row], logits, hidden)
        row.caches, row.length = caches, prompt.shape[1]
        self._take([row], codes)
        return [Spoken(job_id=job.job_id)]

    def _advance(self, rows: Sequence[_Row]) -> Unit:
        """Compute one frame of every row."""
        if self._joined != rows:
            self._join(rows)
        length = max(row.length for row in rows) + 1
        is_own = mx.arange(length) >= mx.array([[length - 1 - row.length] for row in rows])
        given = mx.concatenate([row.given for row in rows])
        logits, hidden = self._model.talker(
            given, cache=self._caches, attention_mask=is_own.astype(mx.float32)
        )
        for row in rows:
            row.length += 1
        yield [logits, hidden]
        codes = yield from self._draw_codes(rows, logits, hidden)
        self._take(rows, codes)
        return [Spoken(job_id=row.job.job_id) for row in self._open(rows)[:1]]

    def _join(self, rows: Sequence[_Row]) -> None:
        """Make one batch of the caches of these rows."""
        from mlx_audio.lm.models.cache import KVCache

        for index, row in enumerate(self._joined):
            if row in rows:
                row.caches = [layer.extract(index) for layer in self._caches]
        layers = zip(*(row.caches for row in rows), strict=True)
        self._caches, self._joined = [KVCache.merge(caches) for caches in layers], list(rows)
        for row in rows:
            row.caches = []

    def _take(self, rows: Sequence[_Row], codes: list[mx.array]) -> None:
        """Add a frame to each row.

        `codes` (rows, 1) are those of each group.
        """
        texts = mx.concatenate([row.next_text() for row in rows])
        given = texts + self._model._codec_embeds_for_tokens(codes)  # noqa: SLF001
        frames = mx.concatenate(codes, axis=1)
        mx.eval(given, frames, [row.key for row in rows])
        first: Any = codes[0][:, 0].tolist()
        for index, row in enumerate(rows):
            row.given = given[index : index + 1]
            if first[index] == self._end:
                row.is_finished = True
                continue
            row.written.append(first[index])
            row.waiting.append(frames[index : index + 1])
            row.is_finished = len(row.written) >= self._max_frames

    def _decode(self, rows: Sequence[_Row], num_frames: int) -> Unit:
        """Return the sound of the rows' next frames, and their end."""
        sounds: Any = []
        if num_frames:
            codes = mx.stack([mx.concatenate(row.waiting[:num_frames]) for row in rows])
            sounds = yield from self._codec.decode([row.sound for row in rows], codes.transpose(0, 2, 1))
        spoken: list[Spoken] = []
        for index, row in enumerate(rows):
            if not self._open([row]):
                continue
            if num_frames:
                sound = Sound(
                    samples=sounds[index], num_text_tokens=row.num_text_tokens, num_audio_tokens=num_frames
                )
                row.num_text_tokens = 0
                del row.waiting[:num_frames]
                spoken.append(report(row.job, sound))
            if row.is_finished and not row.waiting:
                self.drop({row.job.job_id})
                spoken.append(Spoken(job_id=row.job.job_id, is_last=True))
        return spoken

    def _draw_codes(
        self, rows: Sequence[_Row], logits: mx.array, hidden: mx.array
    ) -> Generator[list[mx.array], None, list[mx.array]]:
        """Draw the codes of one frame, as mlx-audio's `generate` does.

        Returns those of each group, (rows, 1).
        """
        talker, config = self._model.talker, self._model.config.talker_config
        first = self._draw(rows, self._allowed(rows, logits[:, -1]))
        codes, caches = [first], talker.code_predictor.make_cache()
        for group in range(config.num_code_groups - 1):
            if group == 0:
                given = mx.concatenate([hidden[:, -1:], talker.get_input_embeddings()(first)], axis=1)
            else:
                given = talker.code_predictor.codec_embedding[group - 1](codes[-1])
            predicted, caches, _ = talker.code_predictor(given, cache=caches, generation_step=group)
            codes.append(self._draw(rows, predicted[:, -1]))
            yield codes[-1:]
        return codes

    def _allowed(self, rows: Sequence[_Row], logits: mx.array) -> mx.array:
        """Mask marks, and penalize codes that were written lately."""
        logits = mx.where(self._is_mark, -mx.inf, logits)
        recent: Any = np.zeros(logits.shape, dtype=bool)
        for index, row in enumerate(rows):
            recent[index, row.written[-_PENALTY_TOKENS:]] = True
        penalties = mx.array([[row.penalty] for row in rows], dtype=logits.dtype)
        penalized = mx.where(logits < 0, logits * penalties, logits / penalties)
        return mx.where(mx.array(recent), penalized, logits)

    def _draw(self, rows: Sequence[_Row], logits: mx.array) -> mx.array:
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
        for index, row in enumerate(rows):
            row.key, key = mx.random.split(row.key)
            drawn.append(mx.random.categorical(logits[index : index + 1], key=key))
        return mx.stack(drawn)

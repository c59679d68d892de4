"""A sound file to segments of text, for one request. Event-loop thread only.

Windows follow each other as in OpenAI's reference (arXiv:2212.04356, section 4.5): what was written so far is
told to the model again, and a window whose text repeats itself, or is unlikely, is written anew at higher
temperatures.
"""

import asyncio
import zlib
from collections.abc import Sequence

from mlxctl.adapters.answer_reader import AnswerReader
from mlxctl.engine import AudioWindow, EngineClient, TranscribedWindow
from mlxctl.errors import InvalidRequest
from mlxctl.inference.models.lease import Lease
from mlxctl.inference.preparation import PreparationPool, jobs
from mlxctl.inference.request_log import RequestEntry, RequestLog
from mlxctl.inference.transcription.segmentation import AudioSegment, divide
from mlxctl.ir import SpeechSegment, TranscriptionRecipe, TranscriptionRequest, TranscriptionResult
from mlxctl.ir.transcription import SAMPLE_BYTES, SAMPLE_RATE

# OpenAI's own thresholds.
_TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_MOST_COMPRESSION = 2.4
_LEAST_LOGPROB = -1.0
_MOST_SILENCE = 0.6
_HIGHEST_TOLD_AGAIN = 0.5
_ONLY_LANGUAGE = "en"


async def transcribe(
    request: TranscriptionRequest,
    *,
    engine: EngineClient,
    preparation: PreparationPool,
    adapter: AnswerReader,
    lease: Lease,
    log: RequestLog,
) -> TranscriptionResult:
    """Write down with a model that is there. Raises RequestError, CapacityError, EngineError."""
    recipe = adapter.facts.transcription
    assert recipe is not None, "only a speech model writes down speech"
    language_id = _language_id(request, recipe)
    prompt = request.prompt.strip()
    told = (
        await preparation.run(jobs.encode_text, f" {prompt}", num_bytes=len(prompt), model=lease.name)
        if prompt
        else []
    )
    words = [token_id for token_id in told if token_id < recipe.end]
    entry = log.begin(request.model, num_prompt_tokens=len(words))
    scribe = _Scribe(request, recipe, adapter, engine, entry, model=lease.name, language_id=language_id)
    with entry.until_done():
        return await scribe.write(words)


def _language_id(request: TranscriptionRequest, recipe: TranscriptionRecipe) -> int | None:
    """Return the token of the language that is asked for.

    Raises InvalidRequest for what the model does not know.
    """
    if request.task == "translate" and not recipe.languages:
        raise InvalidRequest(
            f"model {request.model!r} knows English only and translates nothing", param="model"
        )
    if request.language is None:
        return None
    code = request.language.lower()
    if code not in (recipe.languages or {_ONLY_LANGUAGE: 0}):
        known = ", ".join(sorted(recipe.languages)) or _ONLY_LANGUAGE
        raise InvalidRequest(
            f"language {request.language!r} is not known to the model; it knows {known}", param="language"
        )
    return recipe.languages.get(code)


class _Scribe:
    """Writes one file down. `language_id` is found in the first window if nobody tells it."""

    def __init__(
        self,
        request: TranscriptionRequest,
        recipe: TranscriptionRecipe,
        adapter: AnswerReader,
        engine: EngineClient,
        entry: RequestEntry,
        *,
        model: str,
        language_id: int | None,
    ) -> None:
        self._request, self._recipe, self._adapter, self._engine, self._entry = (
            request,
            recipe,
            adapter,
            engine,
            entry,
        )
        self._model = model
        self._language_id = language_id
        self._segments: list[SpeechSegment] = []

    async def write(self, told: list[int]) -> TranscriptionResult:
        """Write all windows; `told` are the tokens of what was said before."""
        seek = 0
        while seek < self._request.num_samples:
            samples = await asyncio.to_thread(self._request.read_window, seek, self._recipe.window_samples)
            if not samples:
                break
            written, temperature = await self._write_window(samples, told)
            self._language_id = written.language_id
            num_samples = len(samples) // SAMPLE_BYTES
            if _is_silence(written):
                seek += num_samples
                continue
            division = divide(written.token_ids, self._recipe, num_samples=num_samples)
            self._segments += [
                self._segment(stretch, written, seek, temperature) for stretch in division.stretches
            ]
            said = [token_id for stretch in division.stretches for token_id in stretch.token_ids]
            told = [*told, *said] if temperature <= _HIGHEST_TOLD_AGAIN else []
            told = told[-self._recipe.context_length :]
            seek += division.advance
        return TranscriptionResult(
            language=self._language(),
            duration_seconds=self._request.num_samples / SAMPLE_RATE,
            segments=tuple(self._segments),
        )

    async def _write_window(self, samples: bytes, told: Sequence[int]) -> tuple[TranscribedWindow, float]:
        """Return what is written of a window, at the first temperature at which it looks right, or at the
        last.
        """
        asked = self._request.temperature
        for temperature in (asked,) if asked else _TEMPERATURES:
            window = AudioWindow(
                model=self._model,
                samples=samples,
                task=self._request.task,
                language_id=self._language_id,
                previous_ids=list(told),
                temperature=temperature,
            )
            written = await self._engine.transcribe(window, request_id=self._request.request_id)
            self._entry.generated(len(written.token_ids))
            if _is_silence(written) or not self._looks_wrong(written):
                break
        return written, temperature

    def _looks_wrong(self, written: TranscribedWindow) -> bool:
        return (
            written.mean_logprob < _LEAST_LOGPROB
            or _compression(self._text(written.token_ids)) > _MOST_COMPRESSION
        )

    def _segment(
        self, stretch: AudioSegment, written: TranscribedWindow, seek: int, temperature: float
    ) -> SpeechSegment:
        return SpeechSegment(
            start=(seek + stretch.start) / SAMPLE_RATE,
            end=(seek + stretch.end) / SAMPLE_RATE,
            text=self._text(stretch.token_ids),
            token_ids=stretch.token_ids,
            seek=seek,
            temperature=temperature,
            mean_logprob=written.mean_logprob,
            compression_ratio=_compression(self._text(written.token_ids)),
            no_speech=written.no_speech,
        )

    def _text(self, token_ids: Sequence[int]) -> str:
        words = [token_id for token_id in token_ids if token_id < self._recipe.end]
        return b"".join(map(self._adapter.tokens.bytes_of, words)).decode(errors="replace")

    def _language(self) -> str | None:
        return next(
            (code for code, token_id in self._recipe.languages.items() if token_id == self._language_id), None
        )


def _is_silence(written: TranscribedWindow) -> bool:
    return written.no_speech > _MOST_SILENCE and written.mean_logprob < _LEAST_LOGPROB


def _compression(text: str) -> float:
    """How much of the text is repetition: how often smaller it can be written."""
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if data else 0.0

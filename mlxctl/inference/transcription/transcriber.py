"""Transcription of an audio file window by window. Event-loop thread only.

Long audio is decoded as in OpenAI's reference (arXiv:2212.04356, section 4.5): each window is conditioned on
the text of the previous ones, and a window whose text repeats itself, or is unlikely, is decoded again at
higher temperatures.
"""

import asyncio
import zlib
from collections.abc import Callable, Sequence

from mlxctl.engine import AudioWindow, TranscribedWindow
from mlxctl.inference.call_context import CallContext
from mlxctl.inference.preparation import PreparationPool, jobs
from mlxctl.inference.request_entry import RequestContent, RequestEntry
from mlxctl.inference.request_log import RequestLog
from mlxctl.inference.screening import OutputRules, Screened
from mlxctl.inference.session import ModelSession
from mlxctl.inference.transcription.guarded_segments import GuardedSegments
from mlxctl.inference.transcription.segmentation import WindowSegment, split_window
from mlxctl.ir import SpeechSegment, TranscriptionRecipe, TranscriptionRequest, TranscriptionResult
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.transcription import SAMPLE_BYTES, SAMPLE_RATE

# OpenAI's own thresholds.
_TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_MAX_COMPRESSION_RATIO = 2.4
_MIN_LOGPROB = -1.0
_NO_SPEECH_THRESHOLD = 0.6
_MAX_CONDITIONING_TEMPERATURE = 0.5
_ONLY_LANGUAGE = "en"


async def transcribe(
    request: TranscriptionRequest,
    prompt: Screened[str],
    call: CallContext,
    *,
    session: ModelSession,
    rules: OutputRules | None,
    preparation: PreparationPool,
    log: RequestLog,
    on_segments: Callable[[Sequence[SpeechSegment]], None] = lambda _: None,
) -> TranscriptionResult:
    """Transcribe with a loaded model; `on_segments` gets those of each window.

    The `prompt` is that of the request. Raises RequestError, CapacityError, EngineError.
    """
    recipe = session.reader.facts.transcription
    assert recipe is not None, "only transcription models are used here"
    language_id = _language_id(request, recipe)
    text = prompt.content
    encoded = (
        await preparation.run(jobs.encode_text, f" {text}", num_bytes=len(text), model=session.name)
        if text
        else []
    )
    prompt_ids = recipe.latest([token_id for token_id in encoded if token_id < recipe.end])
    entry = log.begin(request.model, call, num_prompt_tokens=len(prompt_ids))
    answer_ids: list[int] = []
    if call.record.keeps_content:
        entry.content = RequestContent(
            prompt_ids=prompt_ids, answer_ids=answer_ids, bytes_of=session.reader.tokens.bytes_of
        )
    transcriber = _FileTranscriber(
        request,
        recipe,
        session,
        entry,
        request_id=call.request_id,
        language_id=language_id,
        segments=GuardedSegments(rules),
        answer_ids=answer_ids,
        on_segments=on_segments,
    )
    with entry.until_done():
        return await transcriber.transcribe(prompt_ids)


def _language_id(request: TranscriptionRequest, recipe: TranscriptionRecipe) -> int | None:
    """Return the token of the requested language.

    Raises InvalidRequest for an unknown one.
    """
    if request.task == "translate" and not recipe.languages:
        raise InvalidRequest(
            f"model {request.model!r} supports English only and cannot translate", param="model"
        )
    if request.language is None:
        return None
    code = request.language.lower()
    if code not in (recipe.languages or {_ONLY_LANGUAGE: 0}):
        known = ", ".join(sorted(recipe.languages)) or _ONLY_LANGUAGE
        raise InvalidRequest(
            f"language {request.language!r} is not supported by the model; it supports {known}",
            param="language",
        )
    return recipe.languages.get(code)


class _FileTranscriber:
    """Transcribes one audio file, window by window.

    The language is detected in the first window unless `language_id` is given. `answer_ids` gets the tokens
    of the text.
    """

    def __init__(
        self,
        request: TranscriptionRequest,
        recipe: TranscriptionRecipe,
        session: ModelSession,
        entry: RequestEntry,
        *,
        request_id: str,
        language_id: int | None,
        segments: GuardedSegments,
        answer_ids: list[int],
        on_segments: Callable[[Sequence[SpeechSegment]], None],
    ) -> None:
        self._request, self._recipe, self._session, self._entry = request, recipe, session, entry
        self._request_id, self._language_id = request_id, language_id
        self._guarded, self._answer_ids = segments, answer_ids
        self._on_segments = on_segments
        self._segments: list[SpeechSegment] = []

    async def transcribe(self, previous_ids: list[int]) -> TranscriptionResult:
        """Transcribe all windows, conditioned on `previous_ids` at first."""
        seek = 0
        while seek < self._request.num_samples:
            samples = await asyncio.to_thread(self._request.read_window, seek, self._recipe.window_samples)
            if not samples:
                break
            result, temperature = await self._transcribe_window(samples, previous_ids)
            self._language_id = result.language_id
            num_samples = len(samples) // SAMPLE_BYTES
            if _is_silence(result):
                seek += num_samples
                continue
            split = split_window(result.token_ids, self._recipe, num_samples=num_samples)
            text_ids = [token_id for segment in split.segments for token_id in segment.token_ids]
            self._answer_ids += text_ids
            segments = [self._segment(segment, result, seek, temperature) for segment in split.segments]
            self._deliver(self._guarded.take(segments))
            previous_ids = [*previous_ids, *text_ids] if temperature <= _MAX_CONDITIONING_TEMPERATURE else []
            previous_ids = self._recipe.latest(previous_ids)
            seek += split.advance
        self._deliver(self._guarded.finish())
        return TranscriptionResult(
            language=self._language(),
            duration_seconds=self._request.num_samples / SAMPLE_RATE,
            segments=tuple(self._segments),
        )

    def _deliver(self, segments: Sequence[SpeechSegment]) -> None:
        self._segments += segments
        self._on_segments(segments)

    async def _transcribe_window(
        self, samples: bytes, previous_ids: Sequence[int]
    ) -> tuple[TranscribedWindow, float]:
        """Return the first plausible text of a window, and its temperature.

        The last temperature is always accepted.
        """
        requested = self._request.temperature
        for temperature in (requested,) if requested else _TEMPERATURES:
            window = AudioWindow(
                model=self._session.name,
                samples=samples,
                task=self._request.task,
                language_id=self._language_id,
                previous_ids=list(previous_ids),
                temperature=temperature,
            )
            result = await self._session.transcribe(window, request_id=self._request_id)
            self._entry.generated(len(result.token_ids))
            if _is_silence(result) or not self._is_implausible(result):
                break
        return result, temperature

    def _is_implausible(self, result: TranscribedWindow) -> bool:
        return (
            result.mean_logprob < _MIN_LOGPROB
            or _compression_ratio(self._text(result.token_ids)) > _MAX_COMPRESSION_RATIO
        )

    def _segment(
        self, segment: WindowSegment, result: TranscribedWindow, seek: int, temperature: float
    ) -> SpeechSegment:
        return SpeechSegment(
            start=(seek + segment.start) / SAMPLE_RATE,
            end=(seek + segment.end) / SAMPLE_RATE,
            text=self._text(segment.token_ids),
            token_ids=segment.token_ids,
            seek=seek,
            temperature=temperature,
            mean_logprob=result.mean_logprob,
            compression_ratio=_compression_ratio(self._text(result.token_ids)),
            no_speech=result.no_speech,
        )

    def _text(self, token_ids: Sequence[int]) -> str:
        words = [token_id for token_id in token_ids if token_id < self._recipe.end]
        return b"".join(map(self._session.reader.tokens.bytes_of, words)).decode(errors="replace")

    def _language(self) -> str | None:
        return next(
            (code for code, token_id in self._recipe.languages.items() if token_id == self._language_id), None
        )


def _is_silence(result: TranscribedWindow) -> bool:
    return result.no_speech > _NO_SPEECH_THRESHOLD and result.mean_logprob < _MIN_LOGPROB


def _compression_ratio(text: str) -> float:
    """Return the ratio of the text's size to its compressed size.

    High for repetitions.
    """
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if data else 0.0

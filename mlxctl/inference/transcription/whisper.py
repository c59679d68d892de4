"""Long audio with Whisper, window after window. Event-loop thread only.

As in OpenAI's reference (arXiv:2212.04356, section 4.5): each window begins at the end of the last complete
segment and is conditioned on the text of the previous ones, with their time tokens, and a window whose text
repeats itself, or is unlikely, is decoded again at higher temperatures.
"""

import zlib
from collections.abc import Sequence
from dataclasses import replace

from mlxctl.engine import AudioWindow, TranscribedWindow
from mlxctl.inference.preparation import PreparationPool, jobs
from mlxctl.inference.transcription.segmentation import WindowSegment, split_window, whisper_text
from mlxctl.inference.transcription.words import words_of_tokens
from mlxctl.inference.transcription.work import TranscriptionWork
from mlxctl.ir import SpeechSegment, WhisperTokens
from mlxctl.ir.transcription import SAMPLE_BYTES, SAMPLE_RATE

# OpenAI's own thresholds.
_TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_MAX_COMPRESSION_RATIO = 2.4
_MIN_LOGPROB = -1.0
_NO_SPEECH_THRESHOLD = 0.6
_MAX_CONDITIONING_TEMPERATURE = 0.5

_LONGEST_PAUSE = 2 * SAMPLE_RATE


async def transcribe_with_whisper(
    work: TranscriptionWork, tokens: WhisperTokens, prompt: str, preparation: PreparationPool
) -> str | None:
    """Transcribe all windows; return the language.

    It is a code, None for a model that does not name it.
    """
    encoded = (
        await preparation.run(jobs.encode_text, f" {prompt}", num_bytes=len(prompt), model=work.session.name)
        if prompt
        else []
    )
    prompt_ids = tokens.latest([token_id for token_id in encoded if token_id < tokens.end])
    work.prompt_ids += prompt_ids
    work.entry.num_prompt = len(prompt_ids)
    return await _WhisperTranscription(work, tokens).transcribe(prompt_ids)


class _WhisperTranscription:
    """Transcribes one audio file.

    Its language is detected in the first window, unless it is given.
    """

    def __init__(self, work: TranscriptionWork, tokens: WhisperTokens) -> None:
        self._work, self._tokens = work, tokens
        self._language_id = tokens.languages.get(work.language or "")
        self._bytes_of = work.session.reader.tokens.bytes_of

    async def transcribe(self, previous_ids: list[int]) -> str | None:
        """Transcribe all windows, conditioned on `previous_ids` at first."""
        work, seek = self._work, 0
        while (part := work.next_part(seek)) is not None:
            # A model was trained with short pauses.
            seek = part[0] if part[0] - seek > _LONGEST_PAUSE else seek
            samples = await work.read(seek, work.recipe.window_samples)
            if not samples:
                break
            result, temperature = await self._transcribe_window(samples, previous_ids)
            self._language_id = result.language_id
            num_samples = len(samples) // SAMPLE_BYTES
            if _is_silence(result):
                seek += num_samples
                continue
            split = split_window(result.token_ids, self._tokens, num_samples=num_samples)
            text_ids = [token_id for segment in split.segments for token_id in segment.token_ids]
            segments = [self._segment(segment, result, seek, temperature) for segment in split.segments]
            segments = self._with_words(segments, result, seek)
            await work.add(segments, text_ids, samples=samples, seek=seek, language=self._language())
            timed_ids = [token_id for segment in split.segments for token_id in segment.timed_ids]
            previous_ids = [*previous_ids, *timed_ids] if temperature <= _MAX_CONDITIONING_TEMPERATURE else []
            previous_ids = self._tokens.latest(previous_ids)
            seek += split.advance
        return self._language()

    async def _transcribe_window(
        self, samples: bytes, previous_ids: Sequence[int]
    ) -> tuple[TranscribedWindow, float]:
        """Return the first plausible text of a window, and its temperature.

        The last temperature is always accepted.
        """
        request = self._work.request
        for temperature in (request.temperature,) if request.temperature else _TEMPERATURES:
            window = AudioWindow(
                model=self._work.session.name,
                samples=samples,
                task=request.task,
                language_id=self._language_id,
                language_ids=[self._tokens.languages[code] for code in request.languages],
                previous_ids=list(previous_ids),
                word_times=request.word_times,
                temperature=temperature,
            )
            result = await self._work.run(window)
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

    def _with_words(
        self, segments: Sequence[SpeechSegment], result: TranscribedWindow, seek: int
    ) -> list[SpeechSegment]:
        """Return the segments of a window with their words.

        Without times of their tokens they have none.
        Tokens of a segment without text, or that is decoded again in the next window, belong to none.
        """
        times = [time + seek / SAMPLE_RATE for time in result.token_times]
        if not times:
            return list(segments)
        texts = [token_id for token_id in result.token_ids if token_id < self._tokens.end]
        first, timed = 0, []
        for segment in segments:
            ids = list(segment.token_ids)
            places = (at for at in range(first, len(texts)) if texts[at : at + len(ids)] == ids)
            first = next(places, len(texts))
            end = first + len(ids)
            words = words_of_tokens([self._bytes_of(each) for each in ids], times[first : end + 1])
            timed.append(replace(segment, words=words))
            first = end
        return timed

    def _text(self, token_ids: Sequence[int]) -> str:
        return whisper_text(token_ids, self._tokens, self._bytes_of)

    def _language(self) -> str | None:
        return next(
            (code for code, token_id in self._tokens.languages.items() if token_id == self._language_id), None
        )


def _is_silence(result: TranscribedWindow) -> bool:
    return result.no_speech > _NO_SPEECH_THRESHOLD and result.mean_logprob < _MIN_LOGPROB


def _compression_ratio(text: str) -> float:
    """Return the ratio of the text's size to its compressed size.

    High for repetitions.
    """
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if data else 0.0

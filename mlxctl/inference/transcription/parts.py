"""Long audio with models that transcribe whole windows. Event-loop thread only.

A file is cut in its pauses: where nothing is loud for two seconds, and else at the quietest moment before a
window is full.
"""

import math
from dataclasses import replace

from mlxctl.engine import AudioWindow
from mlxctl.formats.adapters.media.voice_activity import quietest_moment
from mlxctl.inference.transcription.words import is_unspaced, segments_of
from mlxctl.inference.transcription.work import TranscriptionWork
from mlxctl.ir import SpeechSegment, TimedWord
from mlxctl.ir.transcription import SAMPLE_BYTES, SAMPLE_RATE

# The last seconds of a full window, where it is cut.
_CUT_SECONDS = 10


async def transcribe_parts(work: TranscriptionWork, prompt: str) -> str | None:
    """Transcribe all parts that may hold speech; return the language.

    It is a code, None if it is unknown.
    """
    language, position = work.language, 0
    while (part := work.next_part(position)) is not None:
        position = max(position, part[0])
        samples = await work.read(position, min(part[1] - position, work.recipe.window_samples))
        if not samples:
            break
        num_samples = len(samples) // SAMPLE_BYTES
        if position + num_samples < part[1]:
            samples = _cut(samples)
        found = await _transcribe_window(work, samples, position, prompt)
        language = language or found
        position += len(samples) // SAMPLE_BYTES
    return language


async def _transcribe_window(
    work: TranscriptionWork, samples: bytes, position: int, prompt: str
) -> str | None:
    """Add the segments of a window; return its language, if known."""
    result = await work.run(
        AudioWindow(
            model=work.session.name,
            samples=samples,
            task=work.request.task,
            language=work.language,
            temperature=work.request.temperature,
            prompt=prompt,
        )
    )
    offset = position / SAMPLE_RATE
    if result.words:
        words = [
            TimedWord(text=word.text, start=word.start + offset, end=word.end + offset)
            for word in result.words
        ]
        segments = segments_of(words, seek=position)
    else:
        text = result.text.strip()
        end = (position + len(samples) // SAMPLE_BYTES) / SAMPLE_RATE
        segments = [SpeechSegment(start=offset, end=end, text=text, seek=position)] if text else []
    if segments and work.segments:
        segments[0] = _spaced(segments[0], work.segments[-1])
    work.texts.append(result.text)
    await work.add(
        segments,
        [len(work.texts) - 1],
        samples=samples,
        seek=position,
        language=result.language or work.language,
    )
    return result.language


def _spaced(segment: SpeechSegment, before: SpeechSegment) -> SpeechSegment:
    """Return a segment with a space before it.

    Only where its script has one.
    """
    text = segment.text
    if not text or text[0].isspace() or not before.text or is_unspaced(text[0]):
        return segment
    return replace(segment, text=f" {text}")


def _cut(samples: bytes) -> bytes:
    """Return a window up to the quietest of its last seconds."""
    import numpy as np

    values = np.frombuffer(samples, np.int16)
    first = max(math.ceil(len(values) / 2), len(values) - _CUT_SECONDS * SAMPLE_RATE)
    end = quietest_moment(values, first, len(values))
    return samples[: end * SAMPLE_BYTES]

"""Segments and text of a window that Whisper transcribed. Pure.

A time token stands at the beginning and at the end of each segment, so two adjacent ones separate segments.
A segment that does not end in the window is decoded again in the next one, from its beginning.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mlxctl.ir import WhisperTokens
from mlxctl.ir.transcription import SAMPLE_RATE, STEP_SAMPLES

# Bounds the number of windows for a model that finds almost no text in each.
_MIN_ADVANCE = SAMPLE_RATE


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSegment:
    """Text between two time tokens.

    `start` and `end` are samples from the beginning of the window. `timed_ids` are the tokens with the time
    tokens, which later windows are conditioned on.
    """

    start: int
    end: int
    token_ids: tuple[int, ...]
    timed_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitWindow:
    """Segments of a window; the next begins after `advance` samples."""

    segments: tuple[WindowSegment, ...]
    advance: int


def split_window(token_ids: Sequence[int], tokens: WhisperTokens, *, num_samples: int) -> SplitWindow:
    """Split the tokens of a window of `num_samples` into segments.

    Those without text are left out.
    """
    is_time = [token_id >= tokens.first_time for token_id in token_ids]
    borders = [index for index, (one, other) in enumerate(pairwise(is_time), start=1) if one and other]
    is_whole = len(is_time) > 1 and is_time[-1] and not is_time[-2]
    if not borders or is_whole:
        borders = [*borders, len(token_ids)]
    parts = [token_ids[start:end] for start, end in pairwise([0, *borders])]
    is_open = borders[-1] < len(token_ids)
    last_time = (token_ids[borders[-1] - 1] - tokens.first_time) * STEP_SAMPLES if is_open else num_samples
    segments = [_segment(part, tokens, num_samples=num_samples) for part in parts]
    return SplitWindow(
        segments=tuple(segment for segment in segments if segment.token_ids and segment.start < segment.end),
        advance=min(max(last_time, _MIN_ADVANCE), num_samples),
    )


def _segment(part: Sequence[int], tokens: WhisperTokens, *, num_samples: int) -> WindowSegment:
    times = [
        min((token_id - tokens.first_time) * STEP_SAMPLES, num_samples)
        for token_id in part
        if token_id >= tokens.first_time
    ]
    return WindowSegment(
        start=times[0] if times and part[0] >= tokens.first_time else 0,
        end=times[-1] if times and part[-1] >= tokens.first_time else num_samples,
        token_ids=tuple(token_id for token_id in part if token_id < tokens.end),
        timed_ids=tuple(each for each in part if each < tokens.end or each >= tokens.first_time),
    )


def whisper_text(token_ids: Sequence[int], tokens: WhisperTokens, bytes_of: Callable[[int], bytes]) -> str:
    """Return the text of tokens, without timestamps."""
    words = [token_id for token_id in token_ids if token_id < tokens.end]
    return b"".join(map(bytes_of, words)).decode(errors="replace")

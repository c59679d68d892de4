"""What was written of a window, divided by its times into segments, and where the next window begins. Pure.

A time stands at the beginning and at the end of what is said; two of them, one behind the other, part two
segments. What begins and does not end in the window is heard again from its beginning.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mlxctl.ir import TranscriptionRecipe
from mlxctl.ir.transcription import SAMPLE_RATE, STEP_SAMPLES

# A model that understands next to nothing of each window must not be asked without end.
_MIN_ADVANCE = SAMPLE_RATE


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioSegment:
    """Words that belong together. `start` and `end` are samples from the beginning of the window."""

    start: int
    end: int
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """What was said in a window, and after how many samples the next one begins."""

    stretches: tuple[AudioSegment, ...]
    advance: int


def divide(token_ids: Sequence[int], recipe: TranscriptionRecipe, *, num_samples: int) -> Division:
    """Divide what was written of a window of `num_samples`. Stretches without a word are left out."""
    is_time = [token_id >= recipe.first_time for token_id in token_ids]
    borders = [place for place, (one, other) in enumerate(pairwise(is_time), start=1) if one and other]
    is_whole = len(is_time) > 1 and is_time[-1] and not is_time[-2]
    if not borders or is_whole:
        borders = [*borders, len(token_ids)]
    parts = [token_ids[start:end] for start, end in pairwise([0, *borders])]
    is_open = borders[-1] < len(token_ids)
    last_time = (token_ids[borders[-1] - 1] - recipe.first_time) * STEP_SAMPLES if is_open else num_samples
    stretches = [_stretch(part, recipe, num_samples=num_samples) for part in parts]
    return Division(
        stretches=tuple(
            stretch for stretch in stretches if stretch.token_ids and stretch.start < stretch.end
        ),
        advance=min(max(last_time, _MIN_ADVANCE), num_samples),
    )


def _stretch(part: Sequence[int], recipe: TranscriptionRecipe, *, num_samples: int) -> AudioSegment:
    times = [
        min((token_id - recipe.first_time) * STEP_SAMPLES, num_samples)
        for token_id in part
        if token_id >= recipe.first_time
    ]
    return AudioSegment(
        start=times[0] if times and part[0] >= recipe.first_time else 0,
        end=times[-1] if times and part[-1] >= recipe.first_time else num_samples,
        token_ids=tuple(token_id for token_id in part if token_id < recipe.end),
    )

"""Which token may come next in what is written down of a window: Whisper's rules (arXiv:2212.04356, section
3.2). Knows no mlx.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlxctl.ir import TranscriptionRecipe

# What is said first begins in the first second of a window, by OpenAI's own setting.
_LATEST_BEGIN_STEPS = 50


class TokenRules:
    """Takes out of the logits what must not come next.

    Every time is written twice, as the end of one and the start of the next.
    """

    def __init__(self, recipe: TranscriptionRecipe) -> None:
        marks = {recipe.start, recipe.previous, recipe.no_times, recipe.transcribe, recipe.translate}
        marks |= set() if recipe.no_speech is None else {recipe.no_speech}
        self._recipe = recipe
        self._never = sorted({*recipe.suppressed, *recipe.languages.values(), *marks} - {recipe.end})
        self._not_first = list(recipe.suppressed_first)

    def apply(self, logits: Any, written: Sequence[int]) -> None:
        """Set what must not follow `written` to minus infinity, in place.

        `logits` is a float32 array (vocabulary,).
        """
        logits[self._never] = -np.inf
        if not written:
            logits[self._not_first] = -np.inf
        first_time = self._recipe.first_time
        self._keep_pairs(logits, written)
        if not written:
            logits[:first_time] = -np.inf
            logits[first_time + _LATEST_BEGIN_STEPS + 1 :] = -np.inf
        # Where all times together are likelier than any word, it is a time, whichever.
        times = logits[first_time:]
        highest = times.max(initial=-np.inf)
        if highest > -np.inf and highest + np.log(np.exp(times - highest).sum()) > logits[:first_time].max():
            logits[:first_time] = -np.inf

    def _keep_pairs(self, logits: Any, written: Sequence[int]) -> None:
        """After the end of a segment comes a start, or the end of all; after its start a word; and time does
        not run backwards.
        """
        first_time = self._recipe.first_time
        times = [token_id for token_id in written if token_id >= first_time]
        if not times:
            return
        is_time, was_time = written[-1] >= first_time, len(written) < 2 or written[-2] >= first_time
        if is_time and was_time:
            logits[first_time:] = -np.inf
        elif is_time:
            logits[: self._recipe.end] = -np.inf
        earliest = times[-1] if is_time and not was_time else times[-1] + 1
        logits[first_time:earliest] = -np.inf

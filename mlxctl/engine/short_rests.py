"""Which prompts are read to their end together, and in which passes. Pure; knows no mlx.

One pass over a model costs about as much for one short rest as for several. Rows of a pass are padded to the longest of them, and
they decode together afterwards, so they have to be of about the same length.
"""

from collections.abc import Iterable, Sequence

from mlxctl.engine.grouping import Lengths
from mlxctl.engine.sequence import Sequence as Prompt

SHORT_TOKENS = 48
"""Up to so many tokens a prompt, or what is left of it, is short."""


def choose_rests(ranked: Sequence[Prompt], *, max_tokens: int, affordable_padding_tokens: int) -> list[Prompt]:
    """Return the prompts to read to their end with the first, within `max_tokens` with padding; the first alone if there are none.

    All of `ranked` have their caches. With a first one of which nothing is left come all of which nothing is left.
    """
    chosen = [ranked[0]]
    if not _is_short(ranked[0]):
        return chosen
    for prompt in ranked[1:]:
        together = [*chosen, prompt]
        if _is_short(prompt) and _fit(together, max_tokens) and _padding(together) <= affordable_padding_tokens:
            chosen = together
    return chosen


def padded_tokens(prompts: Sequence[Prompt]) -> int:
    """Return how many tokens reading what is left of these prompts together takes, with padding."""
    return len(prompts) * max(prompt.num_tokens_to_prefill for prompt in prompts)


def passes(prompts: Sequence[Prompt]) -> list[tuple[int, ...]]:
    """Return where each prompt is after each pass: all take as many as the one with the most places to pause at.

    Something is read of every prompt in every pass, because a row of padding alone would change a recurrent state.
    """
    num_passes = max(len(prompt.pauses) for prompt in prompts)
    return list(zip(*(_spread(prompt, num_passes) for prompt in prompts), strict=True))


def _is_short(prompt: Prompt) -> bool:
    return prompt.num_tokens_to_prefill <= SHORT_TOKENS and not prompt.is_read_alone


def _fit(prompts: Sequence[Prompt], max_tokens: int) -> bool:
    least, num_passes = min(prompt.num_tokens_to_prefill for prompt in prompts), max(len(prompt.pauses) for prompt in prompts)
    if least == 0:
        return all(prompt.num_tokens_to_prefill == 0 for prompt in prompts)
    return padded_tokens(prompts) <= max_tokens and least >= num_passes


def _padding(prompts: Iterable[Prompt]) -> int:
    return Lengths.of([prompt.num_prompt_tokens for prompt in prompts]).padding


def _spread(prompt: Prompt, num_passes: int) -> list[int]:
    pauses = set(prompt.pauses)
    more = (position for position in range(max(pauses) - 1, prompt.num_computed_tokens, -1) if position not in pauses)
    while len(pauses) < num_passes:
        pauses.add(next(more))
    return sorted(pauses)

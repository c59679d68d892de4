"""Which prompts are read to their end in one pass, and where that pass pauses. Pure; knows no mlx.

One pass over a model costs about as much for one short rest of a prompt as for several. Rows of a pass are
padded to the longest of them, and they decode together afterwards, so they have to be of about the same
length.
"""

from collections.abc import Iterable, Sequence

from mlxctl.engine.scheduling.grouping import Lengths
from mlxctl.engine.scheduling.sequence import Sequence as Prompt


def select_prefill_batch(
    ranked: Sequence[Prompt],
    *,
    max_tokens: int,
    max_added_padding_tokens: int,
    affordable_padding_tokens: int,
) -> list[Prompt]:
    """Return the prompts to read to their end with the first; the first alone, perhaps not to its end, if
    there are none.

    A pass has up to `max_tokens` with padding. A prompt joins it if the padding that it adds costs no more
    than a pass of its own, `max_added_padding_tokens`, and if the rows may decode together, with up to
    `affordable_padding_tokens` of padding.

    All of `ranked` have their caches. With a first one of which nothing is left come all of which nothing is
    left.
    """
    chosen = [ranked[0]]
    if ranked[0].prefills_alone:
        return chosen
    for prompt in ranked[1:]:
        together = [*chosen, prompt]
        added_padding = padded_tokens(together) - padded_tokens(chosen) - prompt.num_tokens_to_prefill
        if (
            not prompt.prefills_alone
            and added_padding <= max_added_padding_tokens
            and _fits(together, max_tokens)
            and _padding(together) <= affordable_padding_tokens
        ):
            chosen = together
    return chosen


def padded_tokens(prompts: Sequence[Prompt]) -> int:
    """Return how many tokens reading what is left of these prompts together takes, with padding."""
    return len(prompts) * max(prompt.num_tokens_to_prefill for prompt in prompts)


def prefill_passes(prompts: Sequence[Prompt]) -> list[tuple[int, ...]]:
    """Return where each prompt is after each pass: all take as many as the one with the most places to pause
    at.

    Something is read of every prompt in every pass, because a row of padding alone would change a recurrent
    state.
    """
    num_passes = max(len(prompt.remaining_checkpoints) for prompt in prompts)
    return list(zip(*(_with_more_checkpoints(prompt, num_passes) for prompt in prompts), strict=True))


def _fits(prompts: Sequence[Prompt], max_tokens: int) -> bool:
    least, num_passes = (
        min(prompt.num_tokens_to_prefill for prompt in prompts),
        max(len(prompt.remaining_checkpoints) for prompt in prompts),
    )
    if least == 0:
        return all(prompt.num_tokens_to_prefill == 0 for prompt in prompts)
    return padded_tokens(prompts) <= max_tokens and least >= num_passes


def _padding(prompts: Iterable[Prompt]) -> int:
    return Lengths.of([prompt.num_prompt_tokens for prompt in prompts]).padding


def _with_more_checkpoints(prompt: Prompt, num_passes: int) -> list[int]:
    remaining_checkpoints = set(prompt.remaining_checkpoints)
    more = (
        position
        for position in range(max(remaining_checkpoints) - 1, prompt.num_computed_tokens, -1)
        if position not in remaining_checkpoints
    )
    while len(remaining_checkpoints) < num_passes:
        remaining_checkpoints.add(next(more))
    return sorted(remaining_checkpoints)

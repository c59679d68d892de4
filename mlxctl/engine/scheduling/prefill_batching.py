"""Prefill batching: which prompts are finished in one pass. Pure.

A pass costs about as much for one short remaining prompt as for several. The rows of a pass are padded to the
longest one and decode together afterwards, so they need about the same length.
"""

from collections.abc import Iterable, Sequence

from mlxctl.engine.scheduling.grouping import Lengths
from mlxctl.engine.scheduling.sequence import Sequence as Prompt
from mlxctl.ir.pass_memory import UNBOUNDED_PASSES, PassMemory


def select_prefill_batch(
    ranked: Sequence[Prompt],
    *,
    max_tokens: int,
    max_added_padding_tokens: int,
    affordable_padding_tokens: int,
    memory: PassMemory = UNBOUNDED_PASSES,
) -> list[Prompt]:
    """Return the prompts whose prefill one pass finishes, or only the first.

    A pass has up to `max_tokens` including padding. A prompt joins if it adds at most
    `max_added_padding_tokens` of padding, the cost of a separate pass, and if the decode group then has at
    most `affordable_padding_tokens` of padding, and if the pass is within the bound of `memory`. All of
    `ranked` have caches; if the first has no remaining tokens, only prompts without remaining tokens join.
    """
    selected = [ranked[0]]
    if ranked[0].prefills_alone:
        return selected
    for prompt in ranked[1:]:
        together = [*selected, prompt]
        added_padding = (
            padded_tokens(together) - padded_tokens(selected) - prompt.prefill.num_remaining_tokens
        )
        if (
            not prompt.prefills_alone
            and added_padding <= max_added_padding_tokens
            and _fits(together, max_tokens, memory)
            and _padding(together) <= affordable_padding_tokens
        ):
            selected = together
    return selected


def padded_tokens(prompts: Sequence[Prompt]) -> int:
    """Return the tokens of one pass over all remaining prompts, with padding."""
    return len(prompts) * max(prompt.prefill.num_remaining_tokens for prompt in prompts)


def prefill_passes(prompts: Sequence[Prompt]) -> list[tuple[int, ...]]:
    """Return the end position of each prompt in each pass.

    The prompt with the most checkpoints sets the number of passes. Every prompt computes at least one token
    in each, because a row of padding alone would change a recurrent state.
    """
    num_passes = max(len(prompt.prefill.remaining_checkpoints) for prompt in prompts)
    return list(zip(*(_with_more_checkpoints(prompt, num_passes) for prompt in prompts), strict=True))


def _fits(prompts: Sequence[Prompt], max_tokens: int, memory: PassMemory) -> bool:
    least, num_passes = (
        min(prompt.prefill.num_remaining_tokens for prompt in prompts),
        max(len(prompt.prefill.remaining_checkpoints) for prompt in prompts),
    )
    if least == 0:
        return all(prompt.prefill.num_remaining_tokens == 0 for prompt in prompts)
    num_tokens = padded_tokens(prompts)
    return (
        num_tokens <= max_tokens
        and least >= num_passes
        and memory.allows(num_tokens, end=max(prompt.prefill.end for prompt in prompts))
    )


def _padding(prompts: Iterable[Prompt]) -> int:
    return Lengths.of([prompt.num_prompt_tokens for prompt in prompts]).padding


def _with_more_checkpoints(prompt: Prompt, num_passes: int) -> list[int]:
    remaining_checkpoints = set(prompt.prefill.remaining_checkpoints)
    more = (
        position
        for position in range(max(remaining_checkpoints) - 1, prompt.prefill.num_computed_tokens, -1)
        if position not in remaining_checkpoints
    )
    while len(remaining_checkpoints) < num_passes:
        remaining_checkpoints.add(next(more))
    return sorted(remaining_checkpoints)

"""Token counts in OpenAI's words."""

from collections.abc import Sequence

from mlxctl.ir import Usage


def usage_object(usage: Usage) -> dict[str, object]:
    """Return the `usage` object of completions: cached tokens are part of the prompt's, thinking tokens of
    the completion's.
    """
    return {
        "prompt_tokens": usage.num_prompt_tokens,
        "completion_tokens": usage.num_completion_tokens,
        "total_tokens": usage.num_prompt_tokens + usage.num_completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.num_cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.num_thinking_tokens},
    }


def total_usage(usages: Sequence[Usage], *, num_choices: int) -> Usage:
    """Return what all answers cost together: each prompt once, as the first of its `num_choices` found it,
    and every answer.
    """
    firsts = usages[::num_choices]
    return Usage(
        num_prompt_tokens=sum(usage.num_prompt_tokens for usage in firsts),
        num_cached_tokens=sum(usage.num_cached_tokens for usage in firsts),
        num_kept_tokens=sum(usage.num_kept_tokens for usage in firsts),
        num_completion_tokens=sum(usage.num_completion_tokens for usage in usages),
        num_thinking_tokens=sum(usage.num_thinking_tokens for usage in usages),
    )

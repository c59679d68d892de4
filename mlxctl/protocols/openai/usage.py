"""Token counts in OpenAI's words."""

from mlxctl.ir import Usage


def usage_object(usage: Usage) -> dict[str, object]:
    """Return the `usage` object of completions: cached tokens are part of the prompt's, thinking tokens of the completion's."""
    return {
        "prompt_tokens": usage.num_prompt_tokens,
        "completion_tokens": usage.num_completion_tokens,
        "total_tokens": usage.num_prompt_tokens + usage.num_completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.num_cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.num_thinking_tokens},
    }

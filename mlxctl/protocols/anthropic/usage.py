"""Token counts in Anthropic's words."""

from mlxctl.ir import Usage


def usage_object(usage: Usage) -> dict[str, object]:
    """Return the `usage` object: `input_tokens` leaves out what the cache had, so the whole prompt is the sum."""
    return {
        "input_tokens": usage.num_prompt_tokens - usage.num_cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.num_cached_tokens,
        "output_tokens": usage.num_completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.num_thinking_tokens},
    }

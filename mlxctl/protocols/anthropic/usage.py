"""Token counts in Anthropic's words."""

from mlxctl.ir import Usage


def usage_object(usage: Usage, *, has_marks: bool = False) -> dict[str, object]:
    """Return the `usage` object; the whole prompt is the sum of what came from the cache, what is newly kept there, and the rest.

    What was kept is told to whoever marked what to keep; everybody else finds it in the rest.
    """
    num_kept = usage.num_kept_tokens if has_marks else 0
    return {
        "input_tokens": usage.num_prompt_tokens - usage.num_cached_tokens - num_kept,
        "cache_creation_input_tokens": num_kept,
        "cache_read_input_tokens": usage.num_cached_tokens,
        "output_tokens": usage.num_completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.num_thinking_tokens},
    }

"""Token counts in Anthropic's words."""

from typing import Literal

from mlxctl.ir import Usage

KeptFor = Literal["5m", "1h"]


def usage_object(usage: Usage, *, kept_for: KeptFor | None = None) -> dict[str, object]:
    """Return the `usage` object; the whole prompt is the sum of what came from the cache, what is newly kept
    there, and the rest.

    What was kept is told to whoever marked what to keep; everybody else finds it in the rest. `kept_for` is
    what the last mark says, 5 minutes if it says nothing; what an earlier one keeps for an hour is told
    apart.
    """
    num_kept = usage.num_kept_tokens if kept_for else 0
    num_long = num_kept if kept_for == "1h" else min(usage.num_longer_kept_tokens, num_kept)
    return {
        "input_tokens": usage.num_prompt_tokens - usage.num_cached_tokens - num_kept,
        "cache_creation_input_tokens": num_kept,
        "cache_creation": {
            "ephemeral_5m_input_tokens": num_kept - num_long,
            "ephemeral_1h_input_tokens": num_long,
        },
        "cache_read_input_tokens": usage.num_cached_tokens,
        "output_tokens": usage.num_completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.num_thinking_tokens},
    }

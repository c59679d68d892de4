"""Admission by memory: rejects requests that can never fit.

Before anything is sent. Pure.
"""

from typing import Literal

from mlxctl.engine import ModelLoaded
from mlxctl.errors import ContextOverBudget, describe_bytes
from mlxctl.ir.kv_cache_size import cache_bytes, tokens_within

_MIN_OUTPUT_TOKENS = 256


def check_budget(
    loaded: ModelLoaded,
    *,
    num_prompt_tokens: int,
    max_tokens: int,
    sets_max_tokens: bool,
    memory_limit_bytes: int,
    admission: Literal["strict", "prompt"],
) -> None:
    """Raise ContextOverBudget if the request's cache can never fit.

    The limit is the memory beside the model's weights. `max_tokens` counts where the client sets it and
    `admission` is strict; otherwise a short answer does. The words are those by which clients of Anthropic's
    API recognize a conversation that is too long.
    """
    num_output = (
        max_tokens if sets_max_tokens and admission == "strict" else min(max_tokens, _MIN_OUTPUT_TOKENS)
    )
    per_token, windows = loaded.kv_bytes_per_token, loaded.kv_windows
    needed = cache_bytes(num_prompt_tokens + num_output, bytes_per_token=per_token, windows=windows)
    capacity = max(0, memory_limit_bytes - loaded.weights_bytes)
    if needed <= capacity:
        return
    ceiling = tokens_within(capacity, bytes_per_token=per_token, windows=windows)
    max_prompt = max(0, ceiling - min(num_output, _MIN_OUTPUT_TOKENS))
    if num_prompt_tokens > max_prompt:
        words = f"prompt is too long: {num_prompt_tokens} tokens > {max_prompt} maximum"
        remedy = "shorten the prompt"
    else:
        words = (
            f"input length and `max_tokens` exceed context limit: {num_prompt_tokens} + {num_output} > "
            f"{ceiling}, decrease input length or `max_tokens` and try again"
        )
        remedy = "lower max_tokens"
    raise ContextOverBudget(
        f"{words}; the cache needs {describe_bytes(needed)}, and {describe_bytes(capacity)} are left "
        f"of the memory limit of {describe_bytes(memory_limit_bytes)} "
        f"beside {describe_bytes(loaded.weights_bytes)} of weights: {remedy}, "
        "or start the server with a higher --memory-limit or fewer --kv-bits"
    )

"""Memory of one conversation beside the model's weights. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlxctl.ir.kv_cache_size import KVWindow, cache_bytes, tokens_within
from mlxctl.ir.pass_memory import LEAST_TOKENS, PassMemory

PREFIX_CACHE_SHARE = 0.2
"""Share of the memory limit for cached prefixes, where the settings give no size."""

OUTPUT_RESERVE_TOKENS = 256
"""Cache room for the first output tokens, which then need no new copy."""
_NEXT_TURN_RESERVE_TOKENS = 1024


def cache_capacity(num_prompt_tokens: int) -> int:
    """Return the cache capacity of a prompt in tokens.

    It has room for the first output tokens and, after a long prompt, for the next turn.
    """
    return num_prompt_tokens + OUTPUT_RESERVE_TOKENS + min(num_prompt_tokens // 8, _NEXT_TURN_RESERVE_TOKENS)


LOGIT_BYTES = 12
"""Bytes of one logit: in 32 bits, its copy while it is filtered, and what is sampled from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationSize:
    """The least memory in which a conversation can be computed alone.

    A token takes `bytes_per_token` of the cache (`windows` as in `cache_bytes`) and `work_bytes_per_token`
    while it is computed: the copy of one layer, and the attention scores of the smallest pass. `fixed_bytes`
    do not grow: recurrent states, hidden states of the smallest pass, logits.
    """

    bytes_per_token: int
    windows: Sequence[KVWindow] = ()
    work_bytes_per_token: int = 0
    fixed_bytes: int = 0

    @classmethod
    def of(
        cls,
        *,
        bytes_per_token: int,
        windows: Sequence[KVWindow],
        state_bytes: int,
        layer_bytes_per_token: int,
        vocabulary_size: int,
        memory: PassMemory,
    ) -> "ConversationSize":
        """Derive it from a model's sizes.

        `layer_bytes_per_token` are those of its largest layer without a window.
        """
        scores = LEAST_TOKENS * memory.bytes_per_score
        fixed = state_bytes + LEAST_TOKENS * memory.bytes_per_token + LOGIT_BYTES * vocabulary_size
        if memory.window is not None:
            fixed += scores * (memory.window + LEAST_TOKENS)
            scores = 0
        return cls(
            bytes_per_token=bytes_per_token,
            windows=windows,
            work_bytes_per_token=layer_bytes_per_token + scores,
            fixed_bytes=fixed,
        )

    def needed_bytes(self, num_tokens: int) -> int:
        """Return the bytes of a conversation of this length."""
        cache = cache_bytes(num_tokens, bytes_per_token=self.bytes_per_token, windows=self.windows)
        return cache + num_tokens * self.work_bytes_per_token + self.fixed_bytes

    def tokens_within(self, num_bytes: int) -> int:
        """Return the length of the longest conversation within `num_bytes`, in tokens."""
        return tokens_within(
            max(0, num_bytes - self.fixed_bytes),
            bytes_per_token=self.bytes_per_token + self.work_bytes_per_token,
            windows=self.windows,
        )

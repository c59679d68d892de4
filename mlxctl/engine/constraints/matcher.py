"""Grammar matcher: the allowed next tokens of one row.

Owned by the MLX thread.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer


class GrammarMatcher:
    """State of a grammar after a row's tokens.

    Stop tokens are allowed where the grammar is complete. After a `failure` nothing is enforced any more, so
    the row has to end.
    """

    def __init__(self, tokenizer: LLTokenizer, grammar: str, *, start: str = "") -> None:
        """`start` is the grammar's first text if the prompt has it."""
        self._matcher = LLMatcher(tokenizer, grammar)
        self.failure = _reason(self._matcher)
        if start and not self._matcher.consume_tokens(tokenizer.tokenize_str(start)):
            self.failure = f"the grammar does not accept the prefix {start!r}"

    def consume(self, token_id: int) -> None:
        """Advance by one token; tokens after the end are ignored."""
        if not self.failure and not self._matcher.is_stopped() and not self._matcher.consume_token(token_id):
            self.failure = f"token {token_id} was not allowed: {_reason(self._matcher)}"

    def mask_draft(self, draft: Sequence[int], words: "np.ndarray[Any, np.dtype[np.int32]]") -> int:
        """Return how many tokens of a draft are allowed in sequence.

        Sets the bits of the tokens allowed after each of them in `words` (n, ceil(V / 32)). The state stays.
        """
        if self.failure or self._matcher.is_stopped():
            return 0
        # llguidance warns on standard error of a token that is consumed and not allowed.
        num_allowed = self._matcher.validate_tokens(list(draft))
        ahead = self._matcher.deep_copy()
        for num, token_id in enumerate(draft[:num_allowed]):
            if ahead.is_stopped() or not ahead.consume_token(token_id):
                return num
            ahead.unsafe_compute_mask_ptr(words[num].ctypes.data, words[num].nbytes)
            if ahead.is_error():
                return num
        return num_allowed

    def fill_mask(self, words: "np.ndarray[Any, np.dtype[np.int32]]") -> None:
        """Set the bits of the allowed next tokens in 32-bit words."""
        self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        self.failure = self.failure or _reason(self._matcher)


def _reason(matcher: LLMatcher) -> str:
    return matcher.get_error().partition("\n")[0] if matcher.is_error() else ""

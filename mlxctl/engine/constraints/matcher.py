"""A grammar on its way through one answer: which tokens may come next.

Owned by the engine's thread once it is made.
"""

from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer


class GrammarMatcher:
    """Takes tokens and says which may follow; stop tokens may where the grammar is complete.

    `failure` says why it cannot go on; the row has to end then, since nothing would be enforced any more.
    """

    def __init__(self, tokenizer: LLTokenizer, grammar: str, *, start: str = "") -> None:
        """`start` is text that the grammar begins with and that is already there."""
        self._matcher = LLMatcher(tokenizer, grammar)
        self.failure = _reason(self._matcher)
        if start and not self._matcher.consume_tokens(tokenizer.tokenize_str(start)):
            self.failure = f"the answer cannot go on after {start!r}"

    def consume(self, token_id: int) -> None:
        """Go on over a token. What comes after the end is of no interest."""
        if not self.failure and not self._matcher.is_stopped() and not self._matcher.consume_token(token_id):
            self.failure = f"token {token_id} was not allowed: {_reason(self._matcher)}"

    def fill_mask(self, words: "np.ndarray[Any, np.dtype[np.int32]]") -> None:
        """Set the bits of the tokens that may come next, one bit for each, in 32-bit words."""
        self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        self.failure = self.failure or _reason(self._matcher)


def _reason(matcher: LLMatcher) -> str:
    return matcher.get_error().partition("\n")[0] if matcher.is_error() else ""

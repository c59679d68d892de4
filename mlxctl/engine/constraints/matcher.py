"""Grammar matcher: the allowed next tokens of one row.

Owned by the MLX thread.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer

Words = np.ndarray[Any, np.dtype[np.int32]]

_MAX_FORCED = 32
# Of so few allowed tokens, beside white space, each is tried for what has to follow it.
_FEW = 32
# More than a vocabulary has tokens of white space, most of them runs of spaces and line breaks.
_MOST_BLANKS = 512
_SPACE = b" "


class GrammarMatcher:
    """State of a grammar after a row's tokens.

    Where the grammar leaves one text, only the tokens are allowed that the tokenizer would write. Stop tokens
    are allowed where the grammar is complete. After a `failure` nothing is enforced any more, so the row has
    to end.
    """

    def __init__(self, tokenizer: LLTokenizer, grammar: str, *, start: str = "") -> None:
        """`start` is the grammar's first text if the prompt has it."""
        self._tokenizer = tokenizer
        self._stops = frozenset(tokenizer.eos_tokens)
        self._num_words = (tokenizer.vocab_size + 31) // 32
        self._matcher = LLMatcher(tokenizer, grammar)
        # Of the present state, once they are known.
        self._mask: Words | None = None
        self._forced: list[int] | None = None
        self.failure = _reason(self._matcher)
        if start and not self._matcher.consume_tokens(tokenizer.tokenize_str(start)):
            self.failure = f"the grammar does not accept the prefix {start!r}"

    def consume(self, token_id: int) -> None:
        """Advance by one token; tokens after the end are ignored."""
        self._mask = self._forced = None
        if not self.failure and not self._matcher.is_stopped() and not self._matcher.consume_token(token_id):
            self.failure = f"token {token_id} was not allowed: {_reason(self._matcher)}"

    def forced_tokens(self) -> Sequence[int]:
        """Return the next tokens that have no alternative, without stop tokens."""
        if self._forced is None:
            self._forced = list(self._find_forced())
        return self._forced

    def mask_draft(self, draft: Sequence[int], words: Words) -> int:
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
            self._fill(words[num], ahead)
            if ahead.is_error():
                return num
        return num_allowed

    def fill_mask(self, words: Words) -> None:
        """Set the bits of the allowed next tokens in 32-bit words."""
        words[:] = self._present_mask(words.size)
        self.failure = self.failure or _reason(self._matcher)

    def _present_mask(self, num_words: int) -> Words:
        if self._mask is None:
            self._mask = np.zeros(num_words, dtype=np.int32)
            self._fill(self._mask, self._matcher)
        return self._mask

    def _find_forced(self) -> Iterator[int]:
        if self.failure or self._matcher.is_stopped():
            return
        words = self._present_mask(self._num_words)
        ahead = self._matcher
        for num in range(_MAX_FORCED):
            allowed = _token_ids(words, 1)
            if ahead.is_error() or not allowed or allowed[0] in self._stops:
                return
            yield allowed[0]
            if num == 0:
                ahead, words = ahead.deep_copy(), np.empty_like(words)
            if not ahead.consume_token(allowed[0]) or ahead.is_stopped():
                return
            self._fill(words, ahead)

    def _fill(self, words: Words, matcher: LLMatcher) -> None:
        """Set the bits of the tokens allowed in a state.

        Of few, those are left out in place of which the tokenizer would write another one, whatever follows.
        """
        matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        allowed = _token_ids(words, _FEW + _MOST_BLANKS)
        tried = self._few_others(allowed, among_blanks=_SPACE) if len(allowed) > 1 else ()
        whole = words.copy() if tried else words
        for token_id in tried:
            if self._is_cut(matcher, token_id, allowed, whole):
                words.view(np.uint32)[token_id // 32] &= np.uint32(~(1 << token_id % 32) & 0xFFFFFFFF)

    def _few_others(self, token_ids: Sequence[int], *, among_blanks: bytes = b"") -> list[int]:
        """Return the tokens beside white space, none for many.

        `among_blanks` is the white space that counts as another token.
        """
        texts = ((token_id, self._tokenizer.decode_bytes([token_id])) for token_id in token_ids)
        others = [token_id for token_id, text in texts if text == among_blanks or not text.isspace()]
        return others if len(others) <= _FEW else []

    def _is_cut(self, matcher: LLMatcher, token_id: int, allowed: Sequence[int], words: Words) -> bool:
        """Whether the tokenizer would write another token first.

        It would where the text that has to follow this token extends it; after a space that may be left out,
        each text that may follow. `words` is the mask of the `allowed` tokens.
        """
        ahead = matcher.deep_copy()
        if token_id in self._stops or not ahead.consume_token(token_id):
            return False
        text = self._tokenizer.decode_bytes([token_id])
        texts = self._texts_after(ahead, words) if text == _SPACE else {ahead.compute_ff_bytes()}
        firsts = [self._tokenizer.tokenize_bytes(text + following)[0] for following in filter(None, texts)]
        return bool(firsts) and all(first != token_id and first in allowed for first in firsts)

    def _texts_after(self, ahead: LLMatcher, before: Words) -> set[bytes]:
        """Return the texts that may follow a space, as far as known.

        None where the space matters: without it, they are not allowed. Those that begin with white space are
        left out.
        """
        words = np.zeros_like(before)
        ahead.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        texts: set[bytes] = set()
        if np.any(words & ~before):
            return texts
        for token_id in self._few_others(_token_ids(words, _FEW + _MOST_BLANKS)):
            text, further = self._tokenizer.decode_bytes([token_id]), ahead.deep_copy()
            if text[:1].isspace():
                continue
            if token_id not in self._stops and further.consume_token(token_id):
                text += further.compute_ff_bytes()
            texts.add(text)
        return texts


def _token_ids(words: Words, most: int) -> list[int]:
    """Return the tokens of a mask, none for more than `most`."""
    places = np.flatnonzero(words)
    if not 0 < places.size <= most:
        return []
    bits = np.unpackbits(words[places].view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    rows, columns = np.nonzero(bits)
    found: list[int] = (places[rows] * 32 + columns).tolist()
    return found if len(found) <= most else []


def _reason(matcher: LLMatcher) -> str:
    return matcher.get_error().partition("\n")[0] if matcher.is_error() else ""

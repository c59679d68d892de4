"""Which log-probabilities belong to which stretch of the generated text."""

from collections import deque

from mlxctl.adapters.vocabulary import Vocabulary
from mlxctl.ir import TokenLogprob, TokenScore, TopLogprob


class LogprobLedger:
    """Remembers where each scored token begins, in characters, until its text is said or known to stay unsaid.

    Stretches are taken in the order of the text. A token whose text turned out to be a marker, thinking or part of a call lies
    before the next stretch and is forgotten with it.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._num_chars = 0
        self._pending: deque[tuple[int, TokenScore]] = deque()

    def add(self, score: TokenScore) -> None:
        """Note a token that begins where the text now ends."""
        self._pending.append((self._num_chars, score))

    def advance(self, num_chars: int) -> None:
        """The text has grown by so many characters."""
        self._num_chars += num_chars

    def take(self, start: int, end: int) -> tuple[TokenLogprob, ...]:
        """The tokens that begin in this stretch of the text, and forget all up to its end."""
        taken: list[TokenLogprob] = []
        while self._pending and self._pending[0][0] < end:
            begins, score = self._pending.popleft()
            if begins >= start:
                taken.append(self._describe(score))
        return tuple(taken)

    def _describe(self, score: TokenScore) -> TokenLogprob:
        data = self._vocabulary.bytes_of(score.token_id)
        top = tuple(self._candidate(token_id, logprob) for token_id, logprob in score.top)
        return TokenLogprob(token_id=score.token_id, token=_text(data), data=data, logprob=score.logprob, top=top)

    def _candidate(self, token_id: int, logprob: float) -> TopLogprob:
        data = self._vocabulary.bytes_of(token_id)
        return TopLogprob(token_id=token_id, token=_text(data), data=data, logprob=logprob)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")

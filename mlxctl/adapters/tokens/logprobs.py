"""Which log-probabilities belong to which stretch of a text: of one that is generated, and of the prompt
before it.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mlxctl.adapters.tokens.token_table import TokenBytes
from mlxctl.ir import TokenLogprob, TokenScore, TopLogprob


class LogprobLedger:
    """Remembers where each scored token begins, in characters, until its text is said or known to stay
    unsaid.

    Stretches are taken in the order of the text. A token whose text turned out to be a marker, thinking or
    part of a call lies before the next stretch and is forgotten with it.
    """

    def __init__(self, vocabulary: TokenBytes) -> None:
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
                taken.append(_described(score, self._vocabulary))
        return tuple(taken)


def prompt_logprobs(
    text: str, token_ids: Sequence[int], scores: Sequence[TokenScore], vocabulary: TokenBytes
) -> tuple[TokenLogprob, ...]:
    """Return the log-probabilities of a prompt whose text is told as `text`; `scores` are those of its tokens
    from the second on.

    A token that a text begins with and that is not told, such as the one that begins every text, has no bytes
    in it.
    """
    data = vocabulary.bytes_of(token_ids[0])
    told = [TokenLogprob(token_id=token_ids[0], token=_text(data), data=data, logprob=None)]
    told += [_described(score, vocabulary) for score in scores]
    return tuple(
        replace(token, data=part) for token, part in zip(told, _parts(text.encode(), told), strict=True)
    )


def _parts(text: bytes, tokens: Sequence[TokenLogprob]) -> Iterator[bytes]:
    """Yield what of a text each token is, as far as the text holds the tokens as they are; the rest is theirs
    as they are.
    """
    place = 0
    for token in tokens:
        rest = text[place : place + len(token.data)]
        part = token.data
        if rest != part and not place:
            # A tokenizer may put a token, or a space, before a text.
            part = part.removeprefix(b" ") if text.startswith(part.removeprefix(b" ")) else b""
        place += len(part)
        yield part


def _described(score: TokenScore, vocabulary: TokenBytes) -> TokenLogprob:
    data = vocabulary.bytes_of(score.token_id)
    top = tuple(_candidate(token_id, logprob, vocabulary) for token_id, logprob in score.top)
    return TokenLogprob(token_id=score.token_id, token=_text(data), data=data, logprob=score.logprob, top=top)


def _candidate(token_id: int, logprob: float, vocabulary: TokenBytes) -> TopLogprob:
    data = vocabulary.bytes_of(token_id)
    return TopLogprob(token_id=token_id, token=_text(data), data=data, logprob=logprob)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")

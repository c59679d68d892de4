"""Log-probabilities of spans of text, generated and echoed."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mlxctl.formats.adapters.tokens.token_table import TokenBytes
from mlxctl.ir import TokenLogprob, TokenScore, TopLogprob


class LogprobLedger:
    """Maps scored tokens to character offsets until their text is emitted.

    Spans are taken in the order of the text. A token whose text turned out to be a marker, thinking or part
    of a call lies before the next span and is dropped with it.
    """

    def __init__(self, vocabulary: TokenBytes) -> None:
        self._vocabulary = vocabulary
        self._num_chars = 0
        self._pending: deque[tuple[int, TokenScore]] = deque()

    def add(self, score: TokenScore) -> None:
        """Add a token that begins at the current end of the text."""
        self._pending.append((self._num_chars, score))

    def advance(self, num_chars: int) -> None:
        """Move the end of the text by `num_chars` characters."""
        self._num_chars += num_chars

    def take(self, start: int, end: int) -> tuple[TokenLogprob, ...]:
        """Return the tokens that begin in the span.

        Drops all tokens before its end.
        """
        taken: list[TokenLogprob] = []
        while self._pending and self._pending[0][0] < end:
            begins, score = self._pending.popleft()
            if begins >= start:
                taken.append(_described(score, self._vocabulary))
        return tuple(taken)


def prompt_logprobs(
    text: str, token_ids: Sequence[int], scores: Sequence[TokenScore], vocabulary: TokenBytes
) -> tuple[TokenLogprob, ...]:
    """Return the log-probabilities of a prompt whose echoed text is `text`.

    `scores` belong to its tokens from the second on. A leading token that is not part of the echo, such as
    BOS, has no bytes in it.
    """
    data = vocabulary.bytes_of(token_ids[0])
    tokens = [TokenLogprob(token_id=token_ids[0], token=_text(data), data=data, logprob=None)]
    tokens += [_described(score, vocabulary) for score in scores]
    return tuple(
        replace(token, data=part) for token, part in zip(tokens, _parts(text.encode(), tokens), strict=True)
    )


def _parts(text: bytes, tokens: Sequence[TokenLogprob]) -> Iterator[bytes]:
    """Yield the bytes of `text` that belong to each token.

    A token that the text does not contain as it is keeps its own bytes.
    """
    position = 0
    for token in tokens:
        rest = text[position : position + len(token.data)]
        part = token.data
        if rest != part and not position:
            # A tokenizer may put a token, or a space, before a text.
            part = part.removeprefix(b" ") if text.startswith(part.removeprefix(b" ")) else b""
        position += len(part)
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

"""A prompt's log-probabilities map to the characters of the echoed text."""

import pytest

from mlxctl.formats.adapters.tokens.logprobs import prompt_logprobs
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.ir import TokenScore


class FixedVocabulary(Vocabulary):
    """A vocabulary with given tokens."""

    def __init__(self, *words: bytes) -> None:
        self._words = words

    def bytes_of(self, token_id: int) -> bytes:
        return self._words[token_id]


@pytest.mark.parametrize(
    ("text", "words", "parts"),
    [
        ("the fox", (b"the", b" fox"), [b"the", b" fox"]),
        ("the fox", (b"<s>", b"the", b" fox"), [b"", b"the", b" fox"]),
        ("the fox", (b" the", b" fox"), [b"the", b" fox"]),
        ("the fox", (b"<s>", b" the", b" fox"), [b"", b"the", b" fox"]),
        ("é", (b"\xc3", b"\xa9"), [b"\xc3", b"\xa9"]),
        ("The Fox", (b"The", b" fox"), [b"The", b" fox"]),
        ("", (b"<s>",), [b""]),
    ],
)
def test_tokens_map_to_their_parts_of_the_text(
    text: str, words: tuple[bytes, ...], parts: list[bytes]
) -> None:
    scores = [TokenScore(token_id=place, logprob=-1.0, top=((0, -0.5),)) for place in range(1, len(words))]
    logprobs = prompt_logprobs(text, range(len(words)), scores, FixedVocabulary(*words))
    assert [token.data for token in logprobs] == parts
    assert [token.token for token in logprobs] == [word.decode("utf-8", "replace") for word in words]
    assert [token.logprob for token in logprobs] == [None, *(-1.0 for _ in words[1:])]
    assert [len(token.top) for token in logprobs] == [0, *(1 for _ in words[1:])]

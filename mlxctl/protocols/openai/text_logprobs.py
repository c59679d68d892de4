"""Log-probabilities in the words of legacy completions: four lists, one place for each token."""

from collections.abc import Iterable

from mlxctl.ir import TokenLogprob
from mlxctl.protocols.openai.logprobs import LOWEST


class TextLogprobs:
    """Writes the `logprobs` objects of one choice, in order; counts the characters, since each token says
    where it begins.
    """

    def __init__(self) -> None:
        self._num_characters = 0

    def write(self, logprobs: Iterable[TokenLogprob]) -> dict[str, object]:
        """Return the object for the next tokens."""
        tokens: list[str] = []
        chosen: list[float | None] = []
        candidates: list[dict[str, float] | None] = []
        offsets: list[int] = []
        for token in logprobs:
            tokens.append(token.token)
            others = {candidate.token: max(candidate.logprob, LOWEST) for candidate in token.top}
            known = None if token.logprob is None else max(token.logprob, LOWEST)
            chosen.append(known)
            candidates.append(None if known is None else others | {token.token: known})
            offsets.append(self._num_characters)
            self._num_characters += _num_begun(token.data)
        return {
            "tokens": tokens,
            "token_logprobs": chosen,
            "top_logprobs": candidates,
            "text_offset": offsets,
        }


def _num_begun(data: bytes) -> int:
    """Count the characters that begin in these bytes of UTF-8; a character may go on in the next token."""
    return sum(byte & 0xC0 != 0x80 for byte in data)

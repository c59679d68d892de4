"""What tokens stand for, without the tokenizer: bytes by id, packed, so that it goes to another process at
once.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from mlxctl.adapters.tokens.detokenizer import ByteDetokenizer, DecoderDetokenizer, Detokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How tokens become bytes: by the byte-level alphabet, or with `▁` for a space and `<0xXX>` for a byte.

    `num_leading_spaces` are dropped at the very beginning of a text.
    """

    is_byte_level: bool
    num_leading_spaces: int = 0


class TokenBytes(ABC):
    """Ids to bytes and text. `decoding` is None for a tokenizer whose tokens have no bytes of their own."""

    decoding: Decoding | None

    def __init__(self) -> None:
        self._whole_texts: dict[int, str] = {}

    @abstractmethod
    def bytes_of(self, token_id: int) -> bytes:
        """Return the bytes that a token stands for, wherever in a text it is; empty for an id without a
        token.
        """

    @abstractmethod
    def decoder(self) -> Any:
        """Return a tokenizer that can decode; only asked for where there is no `decoding`."""

    def exact_text(self, token_ids: Iterable[int]) -> str | None:
        """Return the text of ids in the middle of a text; None if it is not whole, or depends on what is
        around them.
        """
        if self.decoding is None:
            return None
        try:
            return b"".join(map(self.bytes_of, token_ids)).decode()
        except UnicodeDecodeError:
            return None

    def detokenizer(self, *, is_continuation: bool = False) -> Detokenizer:
        """Return a fresh detokenizer for one answer; one that continues a text keeps the space that it begins
        with.
        """
        if self.decoding is None:
            return DecoderDetokenizer(self.decoder())
        num_leading_spaces = 0 if is_continuation else self.decoding.num_leading_spaces
        return ByteDetokenizer(self.bytes_of, self._whole_texts, num_leading_spaces=num_leading_spaces)


class TokenTable(TokenBytes):
    """The bytes of all tokens in one piece, and where each of them ends."""

    def __init__(
        self,
        tokens: Sequence[bytes],
        decoding: Decoding | None,
        *,
        words: Sequence[str] = (),
        steps: Any = None,
    ) -> None:
        """`words` are the texts of the tokens and `steps` the tokenizer's own decoder, for a tokenizer
        without a `decoding`.
        """
        super().__init__()
        self.decoding = decoding
        self._data = b"".join(tokens)
        self._ends = array("I", accumulate(map(len, tokens)))
        self._words = words
        self._steps = steps
        self._decoder: Any = None

    def bytes_of(self, token_id: int) -> bytes:
        """Return the bytes that a token stands for; empty for an id without a token."""
        if not 0 <= token_id < len(self._ends):
            return b""
        return self._data[self._ends[token_id - 1] if token_id else 0 : self._ends[token_id]]

    def decoder(self) -> Any:
        """Return a tokenizer that decodes as the model's own does, and does nothing else."""
        if self._decoder is None:
            from tokenizers import Tokenizer, models

            vocabulary = {word: token_id for token_id, word in enumerate(self._words) if word}
            self._decoder = Tokenizer(models.WordLevel(vocabulary, unk_token=""))
            if self._steps is not None:
                self._decoder.decoder = self._steps
        return self._decoder

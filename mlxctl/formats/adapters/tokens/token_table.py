"""Bytes by token id without the tokenizer, packed for another process."""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from mlxctl.formats.adapters.tokens.detokenizer import ByteDetokenizer, DecoderDetokenizer, Detokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How tokens become bytes.

    By the byte-level alphabet, or with `▁` for a space and `<0xXX>` for a byte. `num_leading_spaces` are
    dropped at the start of a text.
    """

    is_byte_level: bool
    num_leading_spaces: int = 0


class TokenBytes(ABC):
    """Ids to bytes and text.

    `decoding` is None for a tokenizer whose tokens are not bytes.
    """

    decoding: Decoding | None

    def __init__(self) -> None:
        self._whole_texts: dict[int, str] = {}

    @abstractmethod
    def bytes_of(self, token_id: int) -> bytes:
        """Return a token's bytes at any position; empty for an unknown id."""

    @abstractmethod
    def decoder(self) -> Any:
        """Return a tokenizer that can decode.

        Called only without a `decoding`.
        """

    def exact_text(self, token_ids: Iterable[int]) -> str | None:
        """Return the text of ids inside a text.

        None if the ids are not whole characters, or if their text depends on the tokens around them.
        """
        if self.decoding is None:
            return None
        try:
            return b"".join(map(self.bytes_of, token_ids)).decode()
        except UnicodeDecodeError:
            return None

    def detokenizer(self, *, is_continuation: bool = False) -> Detokenizer:
        """Return a new detokenizer for one answer.

        With `is_continuation` it keeps leading spaces.
        """
        if self.decoding is None:
            return DecoderDetokenizer(self.decoder())
        num_leading_spaces = 0 if is_continuation else self.decoding.num_leading_spaces
        return ByteDetokenizer(self.bytes_of, self._whole_texts, num_leading_spaces=num_leading_spaces)


class TokenTable(TokenBytes):
    """The bytes of all tokens in one buffer, with their end offsets."""

    def __init__(
        self,
        tokens: Sequence[bytes],
        decoding: Decoding | None,
        *,
        texts: Sequence[str] = (),
        steps: Any = None,
    ) -> None:
        """Pack the tokens into one buffer.

        A tokenizer without a `decoding` also needs the texts of the tokens and its decoder.
        """
        super().__init__()
        self.decoding = decoding
        self._data = b"".join(tokens)
        self._ends = array("I", accumulate(map(len, tokens)))
        self._texts = texts
        self._steps = steps
        self._decoder: Any = None

    def bytes_of(self, token_id: int) -> bytes:
        """Return a token's bytes; empty for an unknown id."""
        if not 0 <= token_id < len(self._ends):
            return b""
        return self._data[self._ends[token_id - 1] if token_id else 0 : self._ends[token_id]]

    def decoder(self) -> Any:
        """Return a tokenizer that only decodes, as the model's own does."""
        if self._decoder is None:
            from tokenizers import Tokenizer, models

            vocabulary = {text: token_id for token_id, text in enumerate(self._texts) if text}
            self._decoder = Tokenizer(models.WordLevel(vocabulary, unk_token=""))
            if self._steps is not None:
                self._decoder.decoder = self._steps
        return self._decoder

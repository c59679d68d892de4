"""Token ids to text as they come: byte-exact, and the same for every chunking.

Joined, what a detokenizer gives is what `tokenizer.decode(ids, skip_special_tokens=False)` gives, wherever
that is well-formed UTF-8; what is not becomes U+FFFD.
"""

import codecs
from collections.abc import Callable
from typing import Any, Protocol

_NewDecoder = codecs.getincrementaldecoder("utf-8")


class Detokenizer(Protocol):
    """Turns one answer's ids into text; request-scoped."""

    def feed(self, token_id: int) -> str:
        """The characters that are whole with this token; a character split over tokens waits for its last
        byte.
        """
        ...

    def finish(self) -> str:
        """What is left of a character that never became whole."""
        ...


class ByteDetokenizer:
    """For tokenizers whose tokens have bytes of their own.

    `whole_texts` is shared by all requests of a vocabulary.

    PERF: most tokens are whole characters; their text is looked up and the UTF-8 decoder is not asked.
    """

    __slots__ = ("_bytes_of", "_decoder", "_is_split", "_num_leading_spaces", "_whole_texts")

    def __init__(
        self, bytes_of: Callable[[int], bytes], whole_texts: dict[int, str], *, num_leading_spaces: int = 0
    ) -> None:
        self._bytes_of = bytes_of
        self._whole_texts = whole_texts
        self._num_leading_spaces = num_leading_spaces
        self._decoder = _NewDecoder("replace")
        self._is_split = False

    def feed(self, token_id: int) -> str:
        """The characters that are whole with this token."""
        text = None if self._is_split else self._whole_texts.get(token_id)
        if text is None:
            text = self._decode(token_id)
        return self._strip(text) if self._num_leading_spaces else text

    def finish(self) -> str:
        """What is left of a character that never became whole."""
        return self._decoder.decode(b"", final=True)

    def _decode(self, token_id: int) -> str:
        data = self._bytes_of(token_id)
        was_split = self._is_split
        text = self._decoder.decode(data)
        self._is_split = bool(self._decoder.getstate()[0])
        if not was_split and not self._is_split:
            self._whole_texts[token_id] = text
        return text

    def _strip(self, text: str) -> str:
        """Drop what is left of the spaces that a text does not begin with."""
        rest = text
        while self._num_leading_spaces and rest.startswith(" "):
            rest = rest[1:]
            self._num_leading_spaces -= 1
        if rest:
            self._num_leading_spaces = 0
        return rest


class DecoderDetokenizer:
    """For any other tokenizer: its own incremental decoder."""

    def __init__(self, tokenizer: Any) -> None:
        from tokenizers.decoders import DecodeStream

        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=False)
        self._token_ids: list[int] = []
        self._num_chars = 0

    def feed(self, token_id: int) -> str:
        """The characters that are certain with this token."""
        self._token_ids.append(token_id)
        text: str = self._stream.step(self._tokenizer, token_id) or ""
        self._num_chars += len(text)
        return text

    def finish(self) -> str:
        """What the whole decoding has beyond what was given."""
        whole: str = self._tokenizer.decode(self._token_ids, skip_special_tokens=False)
        return whole[self._num_chars :]

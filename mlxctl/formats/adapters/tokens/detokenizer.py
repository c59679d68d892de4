"""Incremental detokenizers: byte-exact, the same for every chunking.

Joined, their output equals `tokenizer.decode(ids, skip_special_tokens=False)` wherever that is well-formed
UTF-8; other bytes become U+FFFD.
"""

import codecs
from collections.abc import Callable
from typing import Any, Protocol

_NewDecoder = codecs.getincrementaldecoder("utf-8")


class Detokenizer(Protocol):
    """Converts one answer's ids to text. Request-scoped."""

    def feed(self, token_id: int) -> str:
        """Return the characters completed by this token.

        A character that spans tokens waits for its last byte.
        """
        ...

    def finish(self) -> str:
        """Return the rest of an incomplete character."""
        ...


class ByteDetokenizer:
    """For tokenizers whose tokens are bytes.

    `whole_texts` is shared by all requests of a vocabulary.

    PERF: most tokens are whole characters; their text is looked up without the UTF-8 decoder.
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
        """Return the characters completed by this token."""
        text = None if self._is_split else self._whole_texts.get(token_id)
        if text is None:
            text = self._decode(token_id)
        return self._strip(text) if self._num_leading_spaces else text

    def finish(self) -> str:
        """Return the rest of an incomplete character."""
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
        """Drop the leading spaces that decoding removes."""
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
        """Return the characters that are final with this token."""
        self._token_ids.append(token_id)
        text: str = self._stream.step(self._tokenizer, token_id) or ""
        self._num_chars += len(text)
        return text

    def finish(self) -> str:
        """Return the rest of the whole decoding."""
        whole: str = self._tokenizer.decode(self._token_ids, skip_special_tokens=False)
        return whole[self._num_chars :]

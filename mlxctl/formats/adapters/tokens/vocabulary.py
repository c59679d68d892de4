"""A model's tokenizer: text to ids, id to bytes, special tokens.

Never uses `transformers`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mlxctl.formats.adapters.tokens.token_lower_bound import TokenLowerBound
from mlxctl.formats.adapters.tokens.token_table import Decoding, TokenBytes, TokenTable
from mlxctl.ir import ModelFacts
from mlxctl.ir.errors import BrokenModel

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Limit of a cache whose keys come from requests.
_MAX_CACHED_TEXTS = 64
# More than any vocabulary has; a configuration may contain any number.
_MAX_IDS = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedToken:
    """A token that is matched as a whole.

    A special one is no part of the visible text.
    """

    token_id: int
    text: str
    is_special: bool

    @property
    def is_control(self) -> bool:
        """Whether llguidance treats it as a symbol: special, or in angle brackets."""
        return self.is_special or (self.text.startswith("<") and self.text.endswith(">"))


class Vocabulary(TokenBytes):
    """One tokenizer, shared by all requests of a model. Thread-safe."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        super().__init__()
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self.size: int = tokenizer.get_vocab_size(with_added_tokens=True)
        self.added: Mapping[int, AddedToken] = {
            token_id: AddedToken(token_id=token_id, text=token.content, is_special=token.special)
            for token_id, token in tokenizer.get_added_tokens_decoder().items()
        }
        found = {
            token.content: (token_id, token)
            for token_id, token in tokenizer.get_added_tokens_decoder().items()
        }
        self.whole_texts = frozenset(text for text, (_, token) in found.items() if not token.normalized)
        self.cuts: Mapping[str, int] = {
            text: token_id
            for text, (token_id, token) in found.items()
            if _is_cut(token) and self.encode(text) == [token_id]
        }
        self.decoding = _decoding_of(tokenizer.decoder)
        self._bytes: dict[int, bytes] = {}
        self._containing: dict[str, list[int]] = {}
        bare, dressed = (
            tokenizer.encode("a", add_special_tokens=are_added).ids[:1] for are_added in (False, True)
        )
        self._bos_ids: list[int] = dressed if dressed != bare else []
        self._line_break_ids = self.encode("\n")

    @cached_property
    def token_lower_bound(self) -> TokenLowerBound:
        """Lower bounds for the number of tokens."""
        ids = {*range(self.size), *self.added}
        return TokenLowerBound(self._tokenizer, map(self.bytes_of, ids))

    def serialized(self) -> str:
        """Return the tokenizer as the text of a tokenizer.json."""
        text: str = self._tokenizer.to_str()
        return text

    def encode(self, text: str) -> list[int]:
        """Return the ids of a rendered prompt.

        Special tokens in the text are recognized, none are added.
        """
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode_inside(self, text: str) -> list[int]:
        """Return the ids of a text that does not begin the prompt.

        Some tokenizers put a space before a text. None merges a line break with what is no space.
        """
        ids = self.encode("\n" + text)
        is_alone = ids[: len(self._line_break_ids)] == self._line_break_ids
        return ids[len(self._line_break_ids) :] if is_alone else self.encode(text)

    def encode_whole_text(self, text: str) -> list[int]:
        """Return a raw prompt's ids, with the BOS token once."""
        ids = self.encode(text)
        return ids if ids[:1] == self._bos_ids else self._bos_ids + ids

    def encode_with_ends(self, text: str) -> tuple[list[int], int]:
        """Return a text's ids with all tokens the tokenizer adds.

        For embedding models. The number counts the ids added at the end.
        """
        encoding = self._tokenizer.encode(text)
        is_added: list[int] = encoding.special_tokens_mask
        return encoding.ids, next(
            (index for index, added in enumerate(reversed(is_added)) if not added), len(is_added)
        )

    def encode_pair(
        self, first: str, second: str, *, max_second: int | None = None, max_tokens: int | None = None
    ) -> list[int]:
        """Return the ids of two texts with the tokenizer's tokens around them.

        The end of the second text is left out so that it has `max_second` tokens and the whole `max_tokens`.
        """
        encoding = self._tokenizer.encode(first, second)
        ids: list[int] = encoding.ids
        places = [place for place, part in enumerate(encoding.sequence_ids) if part == 1]
        num_kept = len(places) if max_second is None else max_second
        if max_tokens is not None:
            num_kept = min(num_kept, max(max_tokens - len(ids) + len(places), 0))
        cut = frozenset(places[num_kept:])
        return [token_id for place, token_id in enumerate(ids) if place not in cut] if cut else ids

    def decode(self, token_ids: Sequence[int], *, keeps_special: bool = False) -> str:
        """Return the text of ids, by default without special tokens."""
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=not keeps_special)
        return text

    def split_at_opening(self, ids: list[int], opening: str) -> tuple[list[int], int]:
        """Drop the ids that lie wholly in `opening`.

        `opening` is the end of the text, in ASCII. Returns the other ids, and how many characters of
        `opening` the last of them covers. A prompt that ends inside a token which the model always uses there
        would derail the model.
        """
        ids = list(ids)
        num_chars = len(opening)
        while num_chars and len(self.bytes_of(ids[-1])) <= num_chars:
            num_chars -= len(self.bytes_of(ids.pop()))
        return ids, num_chars

    def id_of(self, token: str) -> int | None:
        """Return the id of exactly this token, None if there is none."""
        token_id: int | None = self._tokenizer.token_to_id(token)
        return token_id

    def first_missing(self, token_id: int, texts: Sequence[str]) -> int | str | None:
        """Return the first of these tokens that it lacks, if any."""
        if token_id not in self.added:
            return token_id
        return next((text for text in texts if self.id_of(text) is None), None)

    def first_special(self, text: str) -> AddedToken | None:
        """Return the first special token in a text."""
        for token_id in self.encode(text):
            token = self.added.get(token_id)
            if token is not None and token.is_special:
                return token
        return None

    def bytes_of(self, token_id: int) -> bytes:
        """Return a token's bytes at any position; empty for an unknown id."""
        cached = self._bytes.get(token_id)
        if cached is None:
            cached = self._bytes[token_id] = self._find_bytes(token_id)
        return cached

    def ids_containing(self, texts: Sequence[str]) -> tuple[int, ...]:
        """Return the tokens whose bytes contain one of the texts."""
        found: set[int] = set()
        for text in texts:
            if text not in self._containing:
                if len(self._containing) >= _MAX_CACHED_TEXTS:
                    self._containing.clear()
                data = text.encode()
                self._containing[text] = [
                    token_id for token_id in range(self.size) if data in self.bytes_of(token_id)
                ]
            found.update(self._containing[text])
        return tuple(sorted(found))

    def decoder(self) -> Any:
        """Return the tokenizer itself."""
        return self._tokenizer

    def table(self, num_ids: int) -> TokenTable:
        """Return the bytes of all tokens, for another process.

        It has at least `num_ids` entries: a model may have weights for more ids than tokens.
        """
        size = max([self.size, min(num_ids, _MAX_IDS), *(token_id + 1 for token_id in self.added)])
        tokens = [self.bytes_of(token_id) for token_id in range(size)]
        if self.decoding is not None:
            return TokenTable(tokens, self.decoding)
        texts = [self._tokenizer.id_to_token(token_id) or "" for token_id in range(size)]
        return TokenTable(tokens, None, texts=texts, steps=self._tokenizer.decoder)

    def _find_bytes(self, token_id: int) -> bytes:
        token: str | None = self._tokenizer.id_to_token(token_id)
        if token is None:
            return b""
        if self.decoding is None:
            text: str = self._tokenizer.decode([token_id], skip_special_tokens=False)
            return text.encode()
        return _byte_level(token) if self.decoding.is_byte_level else _sentencepiece(token)


def _is_cut(token: Any) -> bool:
    """Whether the tokenizer never merges text across the token."""
    return token.special and not (token.normalized or token.lstrip or token.rstrip or token.single_word)


def _decoding_of(decoder: Any) -> Decoding | None:
    """Return the decoding of known byte decoders, None for others."""
    if decoder is None:
        return None
    steps = json.loads(decoder.__getstate__())
    steps = steps["decoders"] if steps["type"] == "Sequence" else [steps]
    if [step["type"] for step in steps] == ["ByteLevel"]:
        return Decoding(is_byte_level=True)
    strips = steps[3:]
    space = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    if steps[:3] != [space, {"type": "ByteFallback"}, {"type": "Fuse"}]:
        return None
    if not strips:
        return Decoding(is_byte_level=False)
    if (
        len(strips) == 1
        and strips[0]["type"] == "Strip"
        and strips[0]["content"] == " "
        and strips[0]["stop"] == 0
    ):
        return Decoding(is_byte_level=False, num_leading_spaces=strips[0]["start"])
    return None


def _byte_alphabet() -> dict[str, int]:
    """Return the alphabet of byte-level BPE, as GPT-2 defined it.

    Printable Latin-1 characters stand for themselves, the other bytes are U+0100 and up.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + index): byte for index, byte in enumerate(others)
    }


_BYTE_OF = _byte_alphabet()


def _byte_level(token: str) -> bytes:
    """Return a token's bytes.

    A token with a character outside the alphabet, such as an added one with a space, is its own text.
    """
    data = [_BYTE_OF.get(char, -1) for char in token]
    return token.encode() if -1 in data else bytes(data)


def _sentencepiece(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        try:
            return bytes([int(token[3:5], 16)])
        except ValueError:
            pass
    return token.replace("▁", " ").encode()


def load_vocabulary(facts: ModelFacts) -> Vocabulary:
    """Load the tokenizer of a model; raises BrokenModel.

    Those of speech models and of most transcription models are read by the engine: no text is encoded here.
    """
    # PERF: imported with the first tokenizer, not when the server starts.
    from tokenizers import Tokenizer, models

    if facts.speech is not None:
        return Vocabulary(Tokenizer(models.BPE()))
    if facts.transcription is not None and facts.transcription.whisper is None:
        # Such a model returns text: only the engine has its tokenizer. A vocabulary has at least one token.
        return Vocabulary(Tokenizer(models.BPE(vocab={"": 0}, merges=[])))
    path = facts.path / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for any defect of the file
        raise BrokenModel(
            facts.path, f"{path.name} of {facts.path.name!r} is not a tokenizer: {error}"
        ) from error
    return Vocabulary(tokenizer)

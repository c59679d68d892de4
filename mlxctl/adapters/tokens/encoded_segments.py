"""Token ids by the text that they were once: prompts that were encoded before, and answers as they were
generated.

A model's own tokens for its answer need not be those that a tokenizer gives for the same text, and a prefix
cache knows only tokens. So where a prompt repeats, character for character, what was prompted or generated
before, it gets the ids of that time. The text that the model sees never changes: ids are only kept for
exactly the characters that they stand for.

A text is cut at special tokens, across which no tokenizer merges, into segments. A segment is known by its
own text and by all text before it, so two conversations that say the same in other places do not mix.
"""

import re
from array import array
from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import NamedTuple

from mlxctl.adapters.tokens.vocabulary import Vocabulary

# 4 bytes a token and the bookkeeping of a segment: some millions of tokens.
MAX_BYTES = 32 << 20
_ENTRY_BYTES = 250
_KEY_BYTES = 16
_START = b"\0" * _KEY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSegment:
    """Where an answer begins: the key of everything before its segment, the special token before it ("" at
    the beginning), and what of the segment the prompt has already.
    """

    parent: bytes
    before: str
    text: str
    token_ids: tuple[int, ...]

    def shortened(self, *, num_chars: int, num_tokens: int) -> "OpenSegment":
        """Return it without its last characters and the tokens that they are."""
        return OpenSegment(
            parent=self.parent,
            before=self.before,
            text=self.text[: len(self.text) - num_chars],
            token_ids=self.token_ids[: len(self.token_ids) - num_tokens],
        )


class EncodedSegment(NamedTuple):
    """The key of a segment and of all before it, and the ids that it was."""

    key: bytes
    token_ids: "array[int]"


class _Segment(NamedTuple):
    """A run of text, the special token before it ("" at the beginning), and the one that ends it ("" at the
    end).
    """

    text: str
    before: str
    end: str


class EncodedSegments:
    """Encodes texts, and remembers.

    Thread-safe; holds at most `max_bytes`, those segments used longest ago make way.
    """

    def __init__(self, vocabulary: Vocabulary, *, max_bytes: int = MAX_BYTES) -> None:
        self._vocabulary = vocabulary
        self._cuts = vocabulary.cuts
        self._texts = {token_id: text for text, token_id in self._cuts.items()}
        whole = sorted({*self._cuts, *vocabulary.whole_texts}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, whole)) or r"(?!)")
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._known: OrderedDict[bytes, array[int]] = OrderedDict()
        self.num_bytes = 0

    def encode(self, text: str, namespace: bytes = b"") -> tuple[list[int], OpenSegment]:
        """Return the ids of a rendered prompt, as they were if it is known, and its last segment, which an
        answer continues.

        Only what was kept in the same `namespace` is known: ids of another caller's answer would show in the
        number of tokens.
        """
        token_ids: list[int] = []
        ids: array[int] | None = None
        parent = _root(namespace)
        for segment in self._segments(text):
            key = _key(parent, segment.text)
            ids = self._find(key)
            if ids is None:
                ids = self._encode(segment)
                self._keep(key, ids)
            token_ids.extend(ids)
            if segment.end:
                token_ids.append(self._cuts[segment.end])
                parent = _next(key, self._cuts[segment.end])
        return token_ids, OpenSegment(
            parent=parent, before=segment.before, text=segment.text, token_ids=tuple(ids or ())
        )

    def remember(self, opened: OpenSegment, generated_ids: Sequence[int]) -> None:
        """Keep an answer's ids, its stop token included, for the time when its text is sent back."""
        self.learn(self.segments_of(opened, generated_ids))

    def learn(self, segments: Iterable[EncodedSegment]) -> None:
        """Keep segments that `segments_of` has found, here or in another process."""
        for segment in segments:
            self._keep(segment.key, segment.token_ids)

    def segments_of(self, opened: OpenSegment, generated_ids: Sequence[int]) -> Iterator[EncodedSegment]:
        """Yield the segments of an answer that are worth to be kept.

        What the tokenizer would not read as exactly these characters is not, nor is what comes after it.
        """
        parent, before, text, ids = opened.parent, opened.before, opened.text, [*opened.token_ids]
        for said, end_id in _split(generated_ids, self._texts):
            added = self._vocabulary.exact_text(said)
            if added is None:
                return
            segment = _Segment(text + added, before, "")
            ids += said
            if self._vocabulary.exact_text(self._encode(segment)) != self._vocabulary.exact_text(ids):
                return
            key = _key(parent, segment.text)
            yield EncodedSegment(key, array("I", ids))
            if end_id is not None:
                parent, before, text, ids = _next(key, end_id), self._texts[end_id], "", []

    def _segments(self, text: str) -> Iterator[_Segment]:
        start, before = 0, ""
        for match in self._pattern.finditer(text):
            if match[0] in self._cuts:
                yield _Segment(text[start : match.start()], before, match[0])
                start, before = match.end(), match[0]
        yield _Segment(text[start:], before, "")

    def _encode(self, segment: _Segment) -> "array[int]":
        # With the token before it, since some tokenizers treat the beginning of a text in a way of its own.
        ids = self._vocabulary.encode(segment.before + segment.text) if segment.text else []
        return array("I", ids[1:] if segment.before else ids)

    def _find(self, key: bytes) -> "array[int] | None":
        with self._lock:
            ids = self._known.get(key)
            if ids is not None:
                self._known.move_to_end(key)
            return ids

    def _keep(self, key: bytes, ids: "array[int]") -> None:
        with self._lock:
            replaced = self._known.pop(key, None)
            if replaced is not None:
                self.num_bytes -= _size(replaced)
            self._known[key] = ids
            self.num_bytes += _size(ids)
            while self.num_bytes > self._max_bytes:
                self.num_bytes -= _size(self._known.popitem(last=False)[1])


def _split(token_ids: Sequence[int], ends: Container[int]) -> Iterator[tuple[list[int], int | None]]:
    """Yield the runs between the ids in `ends`, each with the one that ends it; the last has none."""
    run: list[int] = []
    for token_id in token_ids:
        if token_id in ends:
            yield run, token_id
            run = []
        else:
            run.append(token_id)
    yield run, None


def _key(parent: bytes, text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), key=parent, digest_size=_KEY_BYTES).digest()


def _root(namespace: bytes) -> bytes:
    """Return the parent of the first segment."""
    return blake2b(namespace, digest_size=_KEY_BYTES).digest() if namespace else _START


def _next(key: bytes, cut_id: int) -> bytes:
    return blake2b(cut_id.to_bytes(4, "little"), key=key, digest_size=_KEY_BYTES).digest()


def _size(ids: "array[int]") -> int:
    return _ENTRY_BYTES + 4 * len(ids)

"""Token ids of texts that were encoded or generated before.

A model's own tokens for its answer may differ from those that the tokenizer gives for the same text, and the
prefix cache matches tokens. So where a prompt repeats an earlier text, character for character, it gets the
earlier ids. The text that the model reads never changes: ids are stored only for exactly their characters.

A text is cut at special tokens, across which no tokenizer merges, into segments. The key of a segment covers
its own text and all text before it, so equal texts at other positions do not mix. A spelled token with a MARK
(`control_texts`) is no cut: it is encoded in two parts, as the text that it is.
"""

from array import array
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import NamedTuple

from mlxctl.formats.adapters.tokens.control_texts import MARK
from mlxctl.formats.adapters.tokens.literal_pattern import literal_pattern
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary

# 4 bytes per token and a fixed part per segment: some millions of tokens.
MAX_BYTES = 32 << 20
_ENTRY_BYTES = 250
_KEY_BYTES = 16
_START = b"\0" * _KEY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSegment:
    """The start of an answer within its segment.

    `parent` is the key of everything before the segment, `before` the special token before it ("" at the
    start), `text` and `token_ids` the part of the segment that is in the prompt.
    """

    parent: bytes
    before: str
    text: str
    token_ids: tuple[int, ...]

    def shortened(self, *, num_chars: int, num_tokens: int) -> "OpenSegment":
        """Return it without its last characters and their tokens."""
        return OpenSegment(
            parent=self.parent,
            before=self.before,
            text=self.text[: len(self.text) - num_chars],
            token_ids=self.token_ids[: len(self.token_ids) - num_tokens],
        )


class EncodedSegment(NamedTuple):
    """A segment's ids; the key covers it and all before."""

    key: bytes
    token_ids: "array[int]"


class _Segment(NamedTuple):
    """A run of text with the special tokens around it.

    `before` is "" at the start of the text, `end` is "" at its end.
    """

    text: str
    before: str
    end: str


class EncodedSegments:
    """Encodes texts, and stores their ids.

    Thread-safe; holds at most `max_bytes`, least recently used segments are evicted first. `mark_answer` puts
    the marks into an answer that later prompts have there.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        max_bytes: int = MAX_BYTES,
        mark_answer: Callable[[str], str] = str,
    ) -> None:
        self._vocabulary = vocabulary
        self._cuts = vocabulary.cuts
        self._texts = {token_id: text for text, token_id in self._cuts.items()}
        self._pattern = literal_pattern({*self._cuts, *vocabulary.whole_texts})
        self._mark_answer = mark_answer
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._entries: OrderedDict[bytes, array[int]] = OrderedDict()
        self.num_bytes = 0

    def encode(self, text: str, namespace: bytes = b"") -> tuple[list[int], OpenSegment]:
        """Return a prompt's ids and its last segment, which an answer continues.

        Stored ids are used only within the same `namespace`: another caller's ids would show in the number of
        tokens.
        """
        token_ids: list[int] = []
        ids: array[int] | None = None
        parent = _root(namespace)
        for segment in self._segments(text):
            key = _key(parent, segment.text)
            ids = self._find(key)
            if ids is None:
                ids = self._encode(segment)
                self._store(key, ids)
            token_ids.extend(ids)
            if segment.end:
                token_ids.append(self._cuts[segment.end])
                parent = _next(key, self._cuts[segment.end])
        return token_ids, OpenSegment(
            parent=parent, before=segment.before, text=segment.text, token_ids=tuple(ids or ())
        )

    def store(self, segments: Iterable[EncodedSegment]) -> None:
        """Store segments from `segments_of`, here or in another process."""
        for segment in segments:
            self._store(segment.key, segment.token_ids)

    def segments_of(self, opened: OpenSegment, generated_ids: Sequence[int]) -> Iterator[EncodedSegment]:
        """Yield the segments of an answer that are worth storing.

        `generated_ids` include its stop token. Ends at the first segment that the tokenizer would not decode
        to exactly its characters.
        """
        parent, before, text, ids = opened.parent, opened.before, opened.text, [*opened.token_ids]
        for run, end_id in _split(generated_ids, self._texts):
            added = self._vocabulary.exact_text(run)
            if added is None:
                return
            segment = _Segment(text + self._mark_answer(added), before, "")
            ids += run
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
        # Encoded with the token before it: some tokenizers change the beginning of a text.
        text, *others = segment.text.split(MARK)
        ids = self._vocabulary.encode(segment.before + text) if text else []
        encoded = array("I", ids[1:] if segment.before and text else ids)
        for other in others:
            encoded.extend(self._vocabulary.encode_inside(other))
        return encoded

    def _find(self, key: bytes) -> "array[int] | None":
        with self._lock:
            ids = self._entries.get(key)
            if ids is not None:
                self._entries.move_to_end(key)
            return ids

    def _store(self, key: bytes, ids: "array[int]") -> None:
        with self._lock:
            replaced = self._entries.pop(key, None)
            if replaced is not None:
                self.num_bytes -= _size(replaced)
            self._entries[key] = ids
            self.num_bytes += _size(ids)
            while self.num_bytes > self._max_bytes:
                self.num_bytes -= _size(self._entries.popitem(last=False)[1])


def _split(token_ids: Sequence[int], ends: Container[int]) -> Iterator[tuple[list[int], int | None]]:
    """Yield the runs between the ids in `ends`, each with its end.

    The last run has none.
    """
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

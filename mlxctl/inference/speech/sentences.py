"""Cuts text into pieces that are spoken one by one. Pure.

The first sound comes after the first piece, and a short piece is all that a pause, a cancelled request or a
model that loses its way costs.
"""

import re
from collections.abc import Iterator

# A policy: about 20 seconds of speech. Models are trained on clips of up to half a minute.
MAX_CHARS = 300
# A shorter sentence is spoken with the next: models speak single words badly.
MIN_CHARS = 30

# The mark is part of the sentence, with what closes behind it. Ideographic marks need no space after them.
_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？]+[”’」』）]*|\n\s*\n|\n(?=\s*[-*•\d])")
_CLAUSE = re.compile(r"[,;:—–](?=\s)|[，；：、]")
_ABBREVIATION = re.compile(
    r"(?:^|[^\w.])(?:[^\W\d]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|No|bzw|ca|Nr|Mme)\.$|[^\W\d]\.[^\W\d]{1,2}\.$"
)


def cut_sentences(text: str, *, max_chars: int = MAX_CHARS, min_chars: int = MIN_CHARS) -> Iterator[str]:
    """Yield the pieces of a text, each of 1 to `max_chars` characters.

    They have all of the text but white space at their ends. A long sentence is cut at a clause, else at a
    space, else anywhere.
    """
    waiting = ""
    for sentence in _sentences(text):
        joined = f"{waiting} {sentence}" if waiting else sentence
        if len(joined) > max_chars and waiting:
            yield from _short(waiting, max_chars)
            joined = sentence
        waiting = ""
        if len(joined) < min_chars:
            waiting = joined
        else:
            yield from _short(joined, max_chars)
    if waiting:
        yield from _short(waiting, max_chars)


class SentenceStream:
    """Cuts a text that comes in parts.

    A piece is complete when the next has begun.
    """

    def __init__(self) -> None:
        self._text = ""

    def feed(self, text: str) -> list[str]:
        """Return the pieces that this part completes."""
        self._text += text
        *complete, last = (*cut_sentences(self._text), "")[:-1] or ("",)
        if complete:
            self._text = last + self._text[len(self._text.rstrip()) :]
        return complete

    def finish(self) -> list[str]:
        """Return the rest."""
        text, self._text = self._text, ""
        return list(cut_sentences(text))


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(text):
        if end.group().startswith(".") and _ABBREVIATION.search(text[max(start, end.end() - 8) : end.end()]):
            continue
        if sentence := " ".join(text[start : end.end()].split()):
            yield sentence
        start = end.end()
    if sentence := " ".join(text[start:].split()):
        yield sentence


def _short(sentence: str, max_chars: int) -> Iterator[str]:
    while len(sentence) > max_chars:
        head = sentence[: max_chars + 1]
        clauses = [match.end() for match in _CLAUSE.finditer(head) if match.end() <= max_chars]
        # A clause in the first half leaves pieces that are too short.
        cut = max((end for end in clauses if 2 * end >= max_chars), default=head.rfind(" "))
        cut = cut if cut > 0 else max_chars
        yield sentence[:cut].strip()
        sentence = sentence[cut:].strip()
    if sentence:
        yield sentence

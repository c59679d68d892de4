"""Words of a transcript: their division, and segments made of them. Pure."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from mlxctl.ir import SpeechSegment, TimedWord

_SENTENCE_ENDS = (".", "!", "?", "…", "。", "？", "！")
# Of a segment: what fits into two lines of subtitles at the usual rate of speech, and a pause that ends one.
_LONGEST_SECONDS = 15.0
_PAUSE_SECONDS = 1.0
# Scripts without spaces: Han, kana, and the wide forms.
_UNSPACED = ((0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2CEAF))


def is_unspaced(char: str) -> bool:
    """Whether a character belongs to a script without spaces between words."""
    return any(first <= ord(char) <= last for first, last in _UNSPACED)


def alignable_words(text: str) -> list[str]:
    """Divide a text into words, with what follows each.

    In scripts without spaces each character is a word. The words joined are the text; a word without a letter
    or a digit belongs to the one before.
    """
    words: list[str] = []
    for char in text:
        is_new = not words or char.isspace() or is_unspaced(char) or is_unspaced(words[-1][-1])
        if is_new and not (words and not _has_sound(words[-1])):
            words.append(char)
        else:
            words[-1] += char
    # White space and punctuation at the end.
    while len(words) > 1 and not _has_sound(words[-1]):
        last = words.pop()
        words[-1] += last
    return words if words and _has_sound(words[0]) else []


def _has_sound(word: str) -> bool:
    return any(unicodedata.category(char)[0] in "LN" for char in word)


def assign_words(
    segments: Sequence[SpeechSegment], texts: Sequence[Sequence[str]], timed: Sequence[TimedWord]
) -> Iterator[tuple[SpeechSegment, tuple[TimedWord, ...]]]:
    """Yield each segment with its words.

    `texts` has the words of each in order.
    """
    first = 0
    for segment, words in zip(segments, texts, strict=True):
        yield segment, tuple(timed[first : first + len(words)])
        first += len(words)


def words_of_tokens(pieces: Sequence[bytes], times: Sequence[float]) -> tuple[TimedWord, ...]:
    """Return words of tokens' bytes.

    `times` are where each token begins, and where the last one ends.
    A token that begins with a space begins a word, and in scripts without spaces each character does.
    """
    words: list[tuple[bytes, float, float]] = []
    for piece, start, end in zip(pieces, times, times[1:], strict=False):
        before = words[-1][0].decode(errors="replace") if words else " "
        char = piece.decode(errors="replace")[:1]
        # A character may be divided between tokens.
        is_whole = not before.endswith("\ufffd")
        has_border = _has_sound(char) and (is_unspaced(char) or is_unspaced(before[-1]))
        if not words or (is_whole and (char == " " or has_border)):
            words.append((piece, start, end))
        else:
            data, first, _ = words.pop()
            words.append((data + piece, first, end))
    return tuple(
        TimedWord(text=data.decode(errors="replace"), start=start, end=end) for data, start, end in words
    )


def segments_of(words: Iterable[TimedWord], *, seek: int) -> list[SpeechSegment]:
    """Return segments of words.

    They end with a sentence, before a pause, or when they are long.
    """
    segments: list[SpeechSegment] = []
    open_words: list[TimedWord] = []
    for word in words:
        if open_words and (
            open_words[-1].text.endswith(_SENTENCE_ENDS)
            or word.start - open_words[-1].end >= _PAUSE_SECONDS
            or word.end - open_words[0].start > _LONGEST_SECONDS
        ):
            segments.append(_segment(open_words, seek))
            open_words = []
        open_words.append(word)
    return [*segments, _segment(open_words, seek)] if open_words else segments


def _segment(words: Sequence[TimedWord], seek: int) -> SpeechSegment:
    return SpeechSegment(
        start=words[0].start,
        end=max(word.end for word in words),
        text="".join(word.text for word in words),
        seek=seek,
        words=tuple(words),
    )

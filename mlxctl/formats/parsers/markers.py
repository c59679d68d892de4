"""Marker search in text that arrives in pieces."""

import re
from collections.abc import Iterable

_CONTROL_TOKEN = re.compile(
    r"</?\w*[|｜]|[|｜]>|\A\[/?[A-Z_]+\]\Z|\A\]<\]|:opensource>\Z|\A</?(?:minimax:|seed:|dots_|longcat_|iquest_)",
    re.ASCII,
)

# The beginning of a tag or token that ends an answer; shorter ones and words may be text.
_PARTIAL_MARKER = re.compile(r"[<\[\]]\W*\w.*|.*<\|.*", re.DOTALL)


def is_control_token(marker: str) -> bool:
    """Whether the marker is spelled like a control token.

    Such as `<|call|>` or `[ARGS]`, or a tag with a vendor's name. Text that quotes another marker, such as
    `<tool_call>`, is likely; text that quotes a control token is not.
    """
    return _CONTROL_TOKEN.search(marker) is not None


class MarkerSet:
    """A set of literal markers, and the characters trimmed before them.

    Where one marker is in another, it is found once the longer one has become impossible.
    """

    __slots__ = ("_attention", "_longest", "_partials", "_pattern", "trims")

    def __init__(self, markers: Iterable[str], trims: str = "") -> None:
        known = sorted({marker for marker in markers if marker}, key=lambda marker: (-len(marker), marker))
        self.trims = trims if known else ""
        self._pattern = re.compile("|".join(map(re.escape, known)) or r"(?!)")
        self._partials = frozenset(marker[:length] for marker in known for length in range(1, len(marker)))
        self._longest = max(map(len, known), default=1) - 1
        first = "".join(sorted({re.escape(marker[0]) for marker in known}))
        tail = rf"|[{re.escape(self.trims)}]\Z" if self.trims else ""
        self._attention = re.compile(f"[{first}]{tail}" if first else r"(?!)")

    def is_plain(self, text: str) -> bool:
        """Whether the text can be emitted unchanged when nothing is held.

        PERF: one search per token.
        """
        return self._attention.search(text) is None

    def find(self, text: str, start: int = 0, *, is_final: bool = False) -> re.Match[str] | None:
        """Return the first marker from `start` on.

        None while it may still be part of a longer one; final text does not grow.
        """
        found = self._pattern.search(text, start)
        if found is None or is_final or len(text) - self.partial_length(text) > found.start():
            return found
        return None

    def may_begin(self, text: str) -> bool:
        """Whether the whole text is the beginning of a marker."""
        return text in self._partials

    def certain_length(self, text: str) -> int:
        """Return the length of text that no marker can begin in.

        The text has no marker. The beginning of one at its end, and trimmed characters before, do not count.
        """
        certain = len(text) - self.partial_length(text)
        return len(text[:certain].rstrip(self.trims)) if self.trims else certain

    def partial_length(self, text: str) -> int:
        """Return the length of a marker's beginning at the text's end."""
        for length in range(min(self._longest, len(text)), 0, -1):
            if text[-length:] in self._partials:
                return length
        return 0


def without_partial_marker(text: str, markers: MarkerSet) -> str:
    """Return an answer's last text without a partial marker at its end."""
    certain = len(text) - markers.partial_length(text)
    return text[:certain] if _PARTIAL_MARKER.fullmatch(text, certain) and len(text) > certain + 2 else text

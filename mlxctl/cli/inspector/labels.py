"""Labels of conversations, without markup of chat templates. Pure."""

import re
from dataclasses import dataclass

_MAX_CHARS = 400
# A beginning that is shared with sibling branches is left out if it is longer.
_MAX_SHARED_CHARS = 24
_MARKUP = re.compile(
    r"<\|[^|<>\n]{1,40}\|>(?:(?:system|developer|user|assistant|tool)\n)?"
    r"|<(?:start|end)_of_turn>(?:(?:user|model)\n)?|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS)\]|</?s>|<bos>|<[｜|][^<>\n]{1,40}[｜|]>"
)

_ROLE = re.compile(r"\A(?:system|developer|user|assistant|model|tool)\n")
_ENDS_IN_MARKUP = re.compile(r"(?:\|>|<start_of_turn>)\Z")


@dataclass(frozen=True, slots=True)
class UserMarkers:
    """Text that a chat template writes before and after user messages."""

    before: str
    after: str


NO_MARKERS = UserMarkers("", "")


def label_of(text: str | None, parents: str | None, markers: UserMarkers) -> str:
    """Return the label of a branch with `text` after its parents' text.

    That is the first user message if the branch contains it, else the next one, else the branch's text.
    """
    if text is None or parents is None:
        return ""
    whole, start = parents + text, len(parents)
    question = _question(whole, 0, markers)
    if question is not None and question[1] <= start:
        # The first user message is in the parents.
        question = _question(whole, max(start - len(markers.before), question[1]), markers)
    if question is None:
        return _plain(_ROLE.sub("", text, count=1) if _ENDS_IN_MARKUP.search(parents) else text)
    begin, end = question
    if begin < start - _MAX_SHARED_CHARS:
        word = max(whole.rfind(blank, begin, start) for blank in " \n") + 1
        return "…" + _plain(whole[word or start : end])
    return _plain(whole[begin:end]) or _plain(text)


def _question(whole: str, start: int, markers: UserMarkers) -> tuple[int, int] | None:
    """Return the start and end of the next user message."""
    position = whole.find(markers.before, start) if markers.before else -1
    if position < 0:
        return None
    begin = position + len(markers.before)
    end = whole.find(markers.after, begin) if markers.after else -1
    return begin, len(whole) if end < 0 else end


def _plain(text: str) -> str:
    return " ".join(_MARKUP.sub(" ", text[: 4 * _MAX_CHARS]).split())[:_MAX_CHARS]

"""Finds where a value between tags ends.

A closing tag ends a value only where the call goes on or ends behind it:

    </parameter> <parameter=b>               the next argument, unless it is quoted
    </parameter> </function> </tool_call>    the end of the call and of its block, or the next call
    </parameter> </function>                 the same at the end of the answer
    </parameter> <function=f>                the next call, where this one's end is forgotten

Anywhere else it is text. The tags of a whole call in a value, and of whole arguments, belong to each other,
so a file may quote calls. Two values are ambiguous. One with the end of a call and not its beginning ends
there. One with the beginning of a call and not its end goes on to the answer's end, or to an argument
that the tool has and that is not given yet. White space and names behind a closing tag are at most
`MAX_TAG_CHARS` long, so what is held back is bounded.
"""

import re
from collections.abc import Collection

from mlxctl.formats.parsers.call_tags import MAX_TAG_CHARS, CallTags, compare, skip_white_space
from mlxctl.formats.parsers.markers import MarkerSet
from mlxctl.formats.parsers.schemas import Kinds
from mlxctl.formats.parsers.value_wrappers import CDATA_END

_NAME = re.compile(r"[^<>\n]*")
_BREAKS = re.compile(r"(?:[ \t\r\n]|\\n)*")
# Directly behind a call they show that its text is quoted, as in a program.
_QUOTES = frozenset("\"'`\\")
_STRUCTURES = frozenset({"string", "object", "array"})


class ValueScanner:
    """Finds the ends of the values of one block.

    With `is_bare` the block was opened by a call, without its own marker. `has_escaped_breaks` is true once
    the model escaped a line break between two tags: it then does so everywhere.
    """

    def __init__(self, tags: CallTags, *, is_bare: bool) -> None:
        self._tags = tags
        self._is_bare = is_bare
        self._head = tags.call_opener or tags.block_opener
        self._key_openers = (tags.key_opener, *tags.other_key_openers)
        self._closer = tags.value_closer
        self._shared_marks = None if "{name}" in tags.value_closer else self._marks_of(tags.key_opener)
        self._marks = self._shared_marks or MarkerSet(())
        self._own_opener = ""
        self._known: Collection[str] = ()
        self._given: Collection[str] = ()
        self._ends_at_once = False
        self._num_calls = 0
        self._num_arguments = 0
        self.has_escaped_breaks = False

    def begin(
        self, key: str, kinds: Kinds, *, known: Collection[str], given: Collection[str], is_section: bool
    ) -> None:
        """Begin the value of `key`, which may be of these types.

        `known` are the tool's arguments, `given` those of the call so far. With `is_section` the value is a
        CDATA section.
        """
        tags = self._tags
        self._known, self._given = known, {*given, key}
        self._ends_at_once = kinds is not None and not kinds & _STRUCTURES
        self._num_calls = self._num_arguments = 0
        if is_section:
            self._closer = CDATA_END + tags.value_closer
            self._marks = MarkerSet((self._closer,))
        elif self._shared_marks is not None:
            self._closer, self._marks = tags.value_closer, self._shared_marks
        else:
            self._closer = tags.value_closer.replace("{name}", key)
            self._own_opener = f"{tags.key_opener}{key}{tags.key_end}"
            self._marks = self._marks_of(self._own_opener)

    def _marks_of(self, opener: str) -> MarkerSet:
        tags = self._tags
        self._tags_between = MarkerSet(
            (self._closer, *self._key_openers, self._head, tags.call_closer, *tags.block_closers)
        )
        return MarkerSet((self._closer, *tags.value_ends, opener, self._head, tags.call_closer), tags.trims)

    def scan(self, text: str, at: int, *, is_final: bool = False) -> tuple[int, re.Match[str] | None]:
        """Return where certain text ends, and the tag that ends the value.

        Text before that position is never scanned again.
        """
        begin = at
        while (found := self._marks.find(text, begin, is_final=is_final)) is not None:
            ends = self._decide(found, text)
            if ends is None:
                ends = is_final and self._is_end(found)
                if not is_final:
                    return self._untrimmed(text, begin, found.start()), None
            if ends:
                return found.start(), found
            begin = found.end()
        return begin + self._marks.certain_length(text[begin:]), None

    def partial_length(self, text: str) -> int:
        """Return the length of a tag's beginning at the text's end."""
        return self._marks.partial_length(text)

    def is_closer(self, tag: str) -> bool:
        """Whether the tag closes the value, and not what is around it."""
        return tag == self._closer

    def _untrimmed(self, text: str, begin: int, end: int) -> int:
        return begin + len(text[begin:end].rstrip(self._tags.trims)) if self._tags.trims else end

    def _is_end(self, found: re.Match[str]) -> bool:
        return found[0] == self._closer or found[0] in self._tags.value_ends

    def _decide(self, found: re.Match[str], text: str) -> bool | None:
        """Whether a tag ends the value; None while that is open.

        Counts the tags that belong to each other, once they are text.
        """
        tag, end = found[0], found.end()
        if self._ends_at_once:
            return self._is_end(found)
        if tag == self._closer:
            return self._decide_closer(text, end)
        if tag == self._own_opener:
            self._num_arguments += 1
            return False
        if tag.endswith(self._tags.call_closer):
            if self._num_calls:
                self._num_calls -= 1
                return False
            return tag in self._tags.value_ends and self._ends_call(text, end, is_strict=True)
        if tag.endswith(self._head):
            is_head = self._is_head(text, end)
            self._num_calls += is_head is True
            return None if is_head is None else False
        if tag.endswith(self._tags.key_opener):
            return self._decide_key_opener(tag, text, end)
        return self._num_calls == 0 and self._ends_block(text, end, is_strict=True)

    def _decide_closer(self, text: str, end: int) -> bool | None:
        is_quoted = bool(self._num_calls or (self._own_opener and self._num_arguments))
        ends = self._next_argument(text, end, is_quoted=is_quoted)
        if ends is False:
            ends = self._is_last(text, end) if is_quoted else self._ends_with_call(text, end)
        if ends is False:
            self._num_arguments = max(0, self._num_arguments - 1)
        return ends

    def _decide_key_opener(self, tag: str, text: str, end: int) -> bool | None:
        """Decide about the next argument where the closing tag may be forgotten."""
        key = self._tags.key_at(text, end)
        if key is None:
            return None
        is_forgotten = (
            key is not False
            and tag in self._tags.value_ends
            and not (self._num_calls or self._num_arguments)
            and key[0][0] not in self._given
            and (not self._known or key[0][0] in self._known)
        )
        self._num_arguments += key is not False and not is_forgotten
        return is_forgotten

    def _is_head(self, text: str, at: int) -> bool | None:
        """Whether a call begins here: its name, and a tag behind it."""
        name = _NAME.match(text, at, at + MAX_TAG_CHARS)
        end = name.end() if name else at
        if end == len(text):
            return None
        name_end = self._tags.name_end or ">" * (">" in self._tags.name_ends)
        follows = compare(text, end, name_end)
        if end == at or not follows:
            return None if follows is None else False
        end += len(name_end)
        return self._any_follows(text, end, (*self._key_openers, self._tags.call_closer))

    def _skip(self, text: str, at: int) -> int:
        if not self.has_escaped_breaks:
            return skip_white_space(text, at, MAX_TAG_CHARS)
        found = _BREAKS.match(text, at, at + MAX_TAG_CHARS)
        return found.end() if found else at

    def _any_follows(self, text: str, at: int, tags: Collection[str]) -> bool | None:
        """Whether one of the tags follows white space; None while one may."""
        at = self._skip(text, at)
        found = [compare(text, at, tag) for tag in tags]
        return True if True in found else None if None in found else False

    def _next_argument(self, text: str, at: int, *, is_quoted: bool) -> bool | None:
        """Whether the next argument follows; None while it may.

        Behind tags that the value quotes, only one that the tool has and that is not given yet.
        """
        begin = self._skip(text, at)
        if self._tags.skips_text:
            # Text between two tags belongs to no value.
            tag = self._tags_between.find(text[begin : begin + MAX_TAG_CHARS])
            if tag is None:
                return None if len(text) - begin <= MAX_TAG_CHARS else False
            begin += tag.start()
        may_come = text[begin : begin + 2] == "\\" and self.has_escaped_breaks
        for opener in self._key_openers:
            found = compare(text, begin, opener)
            if found:
                found = self._begins_argument(text, begin + len(opener), is_quoted)
            if found:
                return True
            may_come |= found is None
        return None if may_come else False

    def _begins_argument(self, text: str, at: int, is_quoted: bool) -> bool | None:
        """Whether a tag of an argument is not one of the value's."""
        key = self._tags.key_at(text, at)
        if not isinstance(key, tuple):
            is_orphan = key is None and self._tags.orphan_end(text, at) is not None
            return True if is_orphan else key
        name = key[0][0]
        is_new = name not in self._given and name in self._known
        return is_new or not (is_quoted or self._num_arguments)

    def _ends_with_call(self, text: str, at: int) -> bool | None:
        """Whether the end of the call follows; None while it may."""
        tags = self._tags
        begin = self._skip(text, at)
        if compare(text, begin, tags.call_closer):
            return self._ends_call(text, begin + len(tags.call_closer))
        for closer in tags.block_closers:
            if compare(text, begin, closer):
                return self._ends_block(text, begin + len(closer), is_strict=not tags.skips_text)
        ends = self._any_follows(text, begin, (tags.call_closer, *tags.block_closers))
        begins = self._next_call(text, begin)
        return True if begins else None if None in (ends, begins) else False

    def _next_call(self, text: str, at: int) -> bool | None:
        """Whether the next call begins here; None while it may.

        Models forget the end of the call before.
        """
        outer = self._tags.block_opener * bool(self._tags.call_opener)
        opens = compare(text, at, outer)
        if opens is None:
            return None
        begin = self._skip(text, at + len(outer)) if outer and opens else at
        head = compare(text, begin, self._head)
        return self._is_head(text, begin + len(self._head)) if head else head

    def _ends_call(self, text: str, at: int, *, is_strict: bool = False) -> bool | None:
        """Whether the block's end or another call follows a call's end."""
        tags = self._tags
        if self._is_bare or tags.skips_text or not (tags.call_opener and tags.block_closers):
            return self._ends_block(text, at, is_strict=is_strict)
        begin = self._skip(text, at)
        for closer in tags.block_closers:
            if compare(text, begin, closer):
                return self._ends_block(text, begin + len(closer))
        openers = tags.call_opener, tags.block_opener, *tags.block_closers
        return self._any_follows(text, begin, tuple(filter(None, openers)))

    def _ends_block(self, text: str, at: int, *, is_strict: bool = False) -> bool | None:
        """Whether nothing behind a whole call shows that it is quoted.

        With `is_strict` only the end of the answer or of the block, or another call may follow.
        """
        if text[at : at + 1] in _QUOTES:
            return False
        begin = self._skip(text, at)
        if begin == len(text):
            return None
        if is_strict:
            follow = self._head, self._tags.block_opener, *self._tags.block_closers
            return self._any_follows(text, begin, tuple(filter(None, follow)))
        follows = compare(text, begin, self._closer)
        return None if follows is None else not follows

    def _is_last(self, text: str, at: int) -> bool | None:
        """Whether the answer may end with the call; None while it may."""
        for closers in ((self._tags.call_closer,), self._tags.block_closers):
            at = self._skip(text, at)
            found = next((closer for closer in closers if compare(text, at, closer)), "")
            if not found and any(compare(text, at, closer) is None for closer in closers):
                return None
            at += len(found)
        return None if self._skip(text, at) == len(text) else False

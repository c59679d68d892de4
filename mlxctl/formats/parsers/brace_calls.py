"""Calls of Google's function models: JSON without quoted keys.

`call:f{a:1,b:<escape>text<escape>}`. Strings have the same mark on both sides, and stream. Keys and other
values are parsed once they are whole. A mark ends a string only where its object or array goes on or ends
behind it; elsewhere, and in a whole call that the string quotes, it is text.
"""

import re
from collections.abc import Sequence
from typing import Literal

from mlxctl.formats.parsers.argument_values import value_as_json
from mlxctl.formats.parsers.call_tags import compare, skip_white_space
from mlxctl.formats.parsers.declarations import (
    WHITESPACE,
    BodyEnded,
    BodyRejected,
    CallArguments,
    CallEnded,
    CallStarted,
    Closing,
    Opening,
    Signal,
    ToolParser,
)
from mlxctl.formats.parsers.json_value import escape, quote
from mlxctl.formats.parsers.markers import MarkerSet
from mlxctl.formats.parsers.python_value import literal_as_json
from mlxctl.formats.parsers.schemas import STRING, ToolSchemas
from mlxctl.formats.parsers.steps import Step, read_steps
from mlxctl.ir import BraceNotation

MAX_HEAD_CHARS = 256
_HEAD = re.compile(r"\s*(?:call)?:\s*(?P<name>[^\s{}:,<>]+)\s*\{")
# A name with spaces is malformed; the client answers that there is no such tool.
_MAY_BEGIN = re.compile(r"\s*(?:c(?:a(?:l(?:l)?)?)?|(?:call)?:\s*[^{}:,<>\n]*\s*(?:<[^{}<>\n]*)?)?")
_WORD_END = {"key": r"[,:{}\[\]]", "value": r"[,{}\[\]]"}
_MEMBER_KEY = re.compile(r"[^\s{}\[\]:,<>]{1,256}\s*:")
_ARRAY_VALUE = re.compile(r"[{\[\d-]|true|false|null")
_MAY_BE_MEMBER = re.compile(r"[^\s{}\[\]:,<>]*\s*")
_CLOSER = {"{": "}", "[": "]"}

State = Literal["head", "key", "value", "colon", "next"]


class BraceCallsBody:
    """Parses one block; `mark` encloses every string, key or value.

    `opener` and `closer` are the block's markers. Before its closer a call may lack its braces, the last one
    or both. `_open` are the open brackets; `_is_empty` is true while the last of them has no content.
    `_names` are the arguments so far, `_num_quoted` the begun calls that the current string quotes.
    """

    def __init__(self, tools: ToolSchemas, mark: str, opener: str, closer: str) -> None:
        self._tools = tools
        self._mark = mark
        self._closer = closer
        self._opener = opener
        self._marks = MarkerSet((mark,))
        self._string_marks = MarkerSet((mark, opener, closer))
        self._num_quoted = 0
        self._names: set[str] = set()
        end = re.escape(closer)
        self._head_without_braces = re.compile(rf"\s*(?:call)?:\s*(?P<name>[^{{}}:,<>\n]+?)\s*(?={end})")
        self._word_end = {kind: re.compile(f"{chars}|{end}") for kind, chars in _WORD_END.items()}
        self._state: State = "head"
        self._in_string = False
        self._is_empty = True
        self._open: list[str] = []
        self._name = ""
        self._key = ""
        self._num_calls = 0

    def read(self, text: str, start: int) -> Step:
        """Parse up to the next decision."""
        return read_steps(self._step, text, start)

    def finish(self, rest: str) -> Sequence[Signal]:
        """End a started call as incomplete; other text is rejected."""
        if self._state == "head":
            return (BodyEnded(),) if self._num_calls and not rest.strip() else (BodyRejected(),)
        if (
            self._in_string
            and self._state == "value"
            and (end := self._string_end(rest, 0, is_final=True)[1])
        ):
            at, signals = self._close_string(rest, 0, end - len(self._mark))
            decided = list(signals)
            while not isinstance(decided[-1], BodyEnded | BodyRejected):
                at, signals = self.read(rest, at)
                decided += signals or self.finish(rest[at:])
            return decided
        has_value = self._state == "value" and rest.strip()
        string = rest[: len(rest) - self._marks.partial_length(rest)]
        cut = escape(string) if self._in_string else self._value(rest.strip()) if has_value else ""
        return *_arguments_delta(cut), CallEnded(is_complete=False), BodyEnded()

    def _step(self, text: str, at: int) -> Step | None:
        if self._state == "head":
            return self._read_head(text, at)
        if self._in_string:
            return self._read_string(text, at)
        while at < len(text) and text[at] in WHITESPACE:
            at += 1
        if self._state in ("key", "value"):
            if text.startswith(self._mark, at):
                self._in_string, self._num_quoted = True, 0
                self._key = "" if self._state == "key" else self._key
                return at + len(self._mark), (CallArguments(json='"'),)
            if self._mark.startswith(text[at:]):
                return None
            return self._read_bare(text, at)
        return self._read_structure(text, at) if at < len(text) else None

    def _read_head(self, text: str, at: int) -> Step | None:
        head = _HEAD.match(text, at)
        if head is not None:
            self._name = self._tools.resolve(head["name"])
            self._open, self._state, self._is_empty = ["{"], "key", True
            self._names = set()
            return head.end(), (CallStarted(name=self._name), CallArguments(json="{"))
        if (head := self._head_without_braces.match(text, at)) is not None:
            self._num_calls += 1
            started = CallStarted(name=self._tools.resolve(head["name"]))
            return head.end(), (started, CallArguments(json="{}"), CallEnded(is_complete=True))
        if _MAY_BEGIN.fullmatch(text, at) and len(text) - at <= MAX_HEAD_CHARS:
            return None
        return at, (BodyEnded() if self._num_calls else BodyRejected(),)

    def _read_string(self, text: str, at: int) -> Step | None:
        if self._state == "value":
            certain, end = self._string_end(text, at)
            if end:
                return self._close_string(text, at, end - len(self._mark))
        else:
            found = self._marks.find(text, at)
            certain = at + self._marks.certain_length(text[at:]) if found is None else found.start()
            self._key += text[at:certain]
            if found is not None:
                return self._close_string(text, at, certain)
        return (certain, _arguments_delta(escape(text[at:certain]))) if certain > at else None

    def _close_string(self, text: str, at: int, end: int) -> Step:
        self._in_string = False
        self._state = "colon" if self._state == "key" else "next"
        more = _arguments_delta(escape(text[at:end]))
        return end + len(self._mark), (*more, CallArguments(json='"'))

    def _string_end(self, text: str, at: int, *, is_final: bool = False) -> tuple[int, int]:
        """Return where a value's certain text ends, and the string behind it.

        The end is 0 while it is open. Text before the first is never scanned again.
        """
        while (found := self._string_marks.find(text, at, is_final=is_final)) is not None:
            is_mark = found[0] == self._mark
            decided = self._decide(found, text)
            if decided is None and not is_final:
                return found.start(), 0
            if is_mark and decided is not False:
                return found.start(), found.end()
            at = found.end()
            if not is_mark:
                self._num_quoted = max(0, self._num_quoted + (1 if decided else -1))
        return at + self._string_marks.certain_length(text[at:]), 0

    def _decide(self, found: re.Match[str], text: str) -> bool | None:
        """Whether a mark ends the string, or a marker begins a call.

        None while that is open.
        """
        end = found.end()
        if found[0] == self._mark:
            return self._ends_string(text, end)
        if found[0] == self._closer or _HEAD.match(text, end):
            return found[0] != self._closer
        may_come = _MAY_BEGIN.fullmatch(text, end) and len(text) - end <= MAX_HEAD_CHARS
        return None if may_come else False

    def _ends_string(self, text: str, at: int) -> bool | None:
        """Whether a mark here ends the string; None while that is open."""
        begin = skip_white_space(text, at, MAX_HEAD_CHARS)
        if begin == len(text):
            return None
        if (closes := compare(text, begin, self._closer)) is not False:
            return None if closes and self._num_quoted else closes
        if text[begin] == ",":
            return self._member_follows(text, skip_white_space(text, begin + 1, MAX_HEAD_CHARS))
        if text[begin] != _CLOSER[self._open[-1]]:
            return False
        return self._ends_bracket(text, begin + 1)

    def _member_follows(self, text: str, at: int) -> bool | None:
        """Whether the next key or array value stands here."""
        if (marked := compare(text, at, self._mark)) is not False:
            return False if marked and self._num_quoted else marked
        member = (_ARRAY_VALUE if self._open[-1] == "[" else _MEMBER_KEY).match(text, at)
        if member is None:
            return None if len(text) - at <= MAX_HEAD_CHARS and _MAY_BE_MEMBER.fullmatch(text, at) else False
        if len(self._open) > 1:
            return not self._num_quoted
        name = member[0].rstrip(": \t\r\n")
        is_known = name in self._tools.argument_names(self._name)
        return name not in self._names and (is_known or not self._num_quoted)

    def _ends_bracket(self, text: str, at: int) -> bool | None:
        """Whether what may follow a closing bracket stands here."""
        begin = skip_white_space(text, at, MAX_HEAD_CHARS)
        closes = compare(text, begin, self._closer)
        if begin == len(text):
            return None
        if len(self._open) > 1:
            return closes if closes is not False else text[begin] in ",}]"
        if self._num_quoted:
            is_last = closes and skip_white_space(text, begin + len(self._closer), MAX_HEAD_CHARS) == len(
                text
            )
            return None if is_last or closes is None else False
        follows = closes, compare(text, begin, "call:")
        return True if True in follows else None if None in follows else False

    def _read_bare(self, text: str, at: int) -> Step | None:
        """Parse a key or value without marks, or a bracket."""
        if at < len(text) and text[at] in "{[" and self._state == "value":
            self._open.append(text[at])
            self._state, self._is_empty = "key" if text[at] == "{" else "value", True
            return at + 1, (CallArguments(json=text[at]),)
        if text.startswith(_CLOSER[self._open[-1]], at) and self._is_empty:
            return self._close(at)
        end = self._word_end[self._state].search(text, at)
        if end is None:
            is_no_key = self._state == "key" and len(text) - at > MAX_HEAD_CHARS
            return self._break(text, at) if is_no_key else None
        token = text[at : end.start()].strip()
        if not token:
            return self._break(text, end.start())
        if self._state == "key":
            self._key, self._state = token, "colon"
            return end.start(), (CallArguments(json=quote(token)),)
        self._state = "next"
        return end.start(), (CallArguments(json=self._value(token)),)

    def _value(self, token: str) -> str:
        kinds = self._tools.kinds(self._name, self._key) if len(self._open) == 1 else None
        literal = literal_as_json(token)
        if literal is not None and (kinds is None or literal[0] in '"{['):
            return literal
        return value_as_json(token if kinds == STRING or literal is None else literal, kinds)

    def _read_structure(self, text: str, at: int) -> Step:
        match self._state, text[at]:
            case "colon", ":":
                if len(self._open) == 1:
                    self._names.add(self._key)
                self._state, self._is_empty = "value", False
                return at + 1, (CallArguments(json=": "),)
            case "next", ",":
                self._state, self._is_empty = "key" if self._open[-1] == "{" else "value", False
                return at + 1, (CallArguments(json=", "),)
            case "next", char if char == _CLOSER[self._open[-1]]:
                return self._close(at)
            case _:
                return self._break(text, at)

    def _close(self, at: int) -> Step:
        closed = CallArguments(json=_CLOSER[self._open.pop()])
        if self._open:
            self._state = "next"
            return at + 1, (closed,)
        self._state = "head"
        self._num_calls += 1
        return at + 1, (closed, CallEnded(is_complete=True))

    def _break(self, text: str, at: int) -> Step:
        """End the call; before the block's closer only brackets are missing."""
        return at, (CallEnded(is_complete=False, lacks_only_end=text[at] == "<"), BodyEnded())


def _arguments_delta(json: str) -> tuple[Signal, ...]:
    return (CallArguments(json=json),) if json else ()


def brace_parser(parser_id: str, *, opener: str, closer: str, mark: str) -> ToolParser:
    """Return the parser of a format whose strings stand between `mark`."""

    def open_body(opening: Opening) -> BraceCallsBody:
        return BraceCallsBody(opening.tools, mark, opener, closer)

    def force_call(name: str | None) -> str:
        return f"{opener}call:" if name is None else f"{opener}call:{name}{{"

    return ToolParser(
        id=parser_id,
        opener=opener,
        closer=closer,
        open_body=open_body,
        inner_markers=(mark,),
        forced_prefix=force_call,
        closings=(Closing(prefix_end="{", call_end=f"}}{closer}", notation=BraceNotation(mark=mark)),),
        separator="",
    )

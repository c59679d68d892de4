"""Calls of Google's function models: JSON without quoted keys.

`call:f{a:1,b:<escape>text<escape>}`. Strings have the same mark on both sides, and stream. Keys and other
values are parsed once they are whole.
"""

import re
from collections.abc import Sequence
from typing import Literal

from mlxctl.parsers.argument_values import value_as_json
from mlxctl.parsers.declarations import (
    WHITESPACE,
    BodyEnded,
    BodyRejected,
    CallArguments,
    CallEnded,
    CallStarted,
    Signal,
)
from mlxctl.parsers.json_value import escape, quote
from mlxctl.parsers.markers import MarkerSet
from mlxctl.parsers.python_value import literal_as_json
from mlxctl.parsers.schemas import STRING, ToolSchemas
from mlxctl.parsers.steps import Step, read_steps

MAX_HEAD_CHARS = 256
_HEAD = re.compile(r"\s*(?:call)?:\s*(?P<name>[^\s{}:,<>]+)\s*\{")
# A name with spaces is malformed; the client answers that there is no such tool.
_MAY_BEGIN = re.compile(r"\s*(?:c(?:a(?:l(?:l)?)?)?|(?:call)?:\s*[^{}:,<>\n]*\s*(?:<[^{}<>\n]*)?)?")
_WORD_END = {"key": r"[,:{}\[\]]", "value": r"[,{}\[\]]"}
_CLOSER = {"{": "}", "[": "]"}

State = Literal["head", "key", "value", "colon", "next"]


class BraceCallsBody:
    """Parses one block; `mark` encloses every string, key or value.

    Before the block's `closer` a call may lack its braces, the last one or both. `_open` are the open
    brackets; `_is_empty` is true while the last of them has no content.
    """

    def __init__(self, tools: ToolSchemas, mark: str, closer: str) -> None:
        self._tools = tools
        self._mark = mark
        self._marks = MarkerSet((mark,))
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
                self._in_string = True
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
            return head.end(), (CallStarted(name=self._name), CallArguments(json="{"))
        if (head := self._head_without_braces.match(text, at)) is not None:
            self._num_calls += 1
            started = CallStarted(name=self._tools.resolve(head["name"]))
            return head.end(), (started, CallArguments(json="{}"), CallEnded(is_complete=True))
        if _MAY_BEGIN.fullmatch(text, at) and len(text) - at <= MAX_HEAD_CHARS:
            return None
        return at, (BodyEnded() if self._num_calls else BodyRejected(),)

    def _read_string(self, text: str, at: int) -> Step | None:
        rest = text[at:]
        end = self._marks.find(rest)
        length = self._marks.certain_length(rest) if end is None else end.start()
        if self._state == "key":
            self._key += rest[:length]
        deltas = _arguments_delta(escape(rest[:length]))
        if end is None:
            return (at + length, deltas) if length else None
        self._in_string = False
        self._state = "colon" if self._state == "key" else "next"
        return at + length + len(self._mark), (*deltas, CallArguments(json='"'))

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

"""Calls with a header before JSON arguments, such as `f[ARGS]{"a": 1}`.

A header ends where the arguments' brace begins. From there the arguments stream verbatim.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mlxctl.formats.parsers.declarations import (
    WHITESPACE,
    BodyEnded,
    BodyRejected,
    CallEnded,
    CallStarted,
    Punctuation,
    Signal,
)
from mlxctl.formats.parsers.json_arguments import JsonArguments
from mlxctl.formats.parsers.schemas import ToolSchemas

MAX_HEAD_CHARS = 256
_REJECTED = (BodyRejected(),)
_FIRST_KEY = re.compile(r'\{\s*(?:"(?P<name>[^"\\]*)"|(?P<other>[^\s"]))')


@dataclass(frozen=True, slots=True, kw_only=True)
class CallHead:
    """How a format writes the header.

    `pattern` matches a whole header and has a group `name`. `may_begin` matches every beginning of one, so
    that other text is rejected early. `tails` may follow the arguments and are dropped; `opener` begins
    another header. With `is_bare`, the header has no marker: only available tools are called. `others` are
    first parts of names that address another recipient, unless a tool has that name. `whole_name` matches a
    header up to what follows the name: an answer that ends there is a call of an available tool. `begun_name`
    matches a header that ends in the name or in the marker after it, where the name has a marker of its own.
    """

    pattern: re.Pattern[str]
    may_begin: re.Pattern[str]
    tails: tuple[str, ...] = ()
    opener: str = ""
    is_bare: bool = False
    others: frozenset[str] = frozenset()
    whole_name: re.Pattern[str] | None = None
    begun_name: re.Pattern[str] | None = None


class HeadedJsonBody:
    """Parses one block of consecutive calls."""

    def __init__(self, head: CallHead, tools: ToolSchemas) -> None:
        self._head = head
        self._tools = tools
        self._state: Literal["head", "arguments", "after"] = "head"
        self._num_calls = 0
        self._arguments = JsonArguments()

    def read(self, text: str, start: int) -> tuple[int, Sequence[Signal]]:
        """Parse up to the next decision; headers are parsed once whole."""
        match self._state:
            case "head":
                return self._read_head(text, start)
            case "arguments":
                end, signals = self._arguments.read(text, start)
                if self._arguments.is_whole:
                    self._state = "after"
                    self._num_calls += 1
                return end, signals
            case "after":
                return self._read_tail(text, start)

    def finish(self, rest: str) -> Sequence[Signal]:
        """End a started call as incomplete; other headers are rejected."""
        if self._state == "arguments":
            return CallEnded(is_complete=False), BodyEnded()
        if self._state == "head" and (name := self._whole_name(rest)):
            return CallStarted(name=name), CallEnded(is_complete=False), BodyEnded()
        if self._state == "after" and not rest.strip():
            return (BodyEnded(),)
        begun = self._head.begun_name.fullmatch(rest) if self._head.begun_name else None
        return (BodyRejected(begun_call=self._tools.resolve(begun["name"]) if begun else ""),)

    def _whole_name(self, head: str) -> str | None:
        """Return the available tool that a header without arguments names."""
        found = self._head.whole_name.match(head) if self._head.whole_name else None
        name = "" if found is None else self._tools.resolve(found["name"])
        return name if self._tools.is_available(name) else None

    def _read_head(self, text: str, at: int) -> tuple[int, Sequence[Signal]]:
        end = text.find("{", at)
        if end < 0:
            cannot_match = len(text) - at > MAX_HEAD_CHARS or not self._head.may_begin.fullmatch(text, at)
            return at, _REJECTED if cannot_match else ()
        found = self._head.pattern.fullmatch(text, at, end)
        name = "" if found is None else self._tools.resolve(found["name"])
        if name.isdigit() and not self._tools.has_tool(name):
            # Models forget the name before a call's number.
            key = _FIRST_KEY.match(text, end)
            if key is None and not self._tools.only_tool() and len(text) - end <= MAX_HEAD_CHARS:
                return at, ()
            name = self._tools.only_tool() or (key and self._tools.only_tool(key["name"])) or name
        if not name or (
            not self._tools.has_tool(name)
            and (self._head.is_bare or name.partition(".")[0] in self._head.others)
        ):
            return at, _REJECTED
        self._state, self._arguments = "arguments", JsonArguments()
        return end, (CallStarted(name=name),)

    def _read_tail(self, text: str, at: int) -> tuple[int, Sequence[Signal]]:
        while at < len(text) and text[at] in WHITESPACE:
            at += 1
        rest = text[at : at + MAX_HEAD_CHARS]
        if tail := next(filter(rest.startswith, self._head.tails), ""):
            return at + len(tail), (Punctuation(),)
        opener = self._head.opener
        if opener and rest.startswith(opener):
            self._state = "head"
            return at, (Punctuation(),)
        may_come = any(mark.startswith(rest) for mark in (*self._head.tails, opener) if mark)
        return at, () if may_come else (BodyEnded(),)

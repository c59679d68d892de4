"""Calls whose name stands in a head before the arguments: `f[ARGS]{"a": 1}`, `<function=f>{"a":
1}</function>` and their kin.

Whatever a format puts around the name, its head ends where the arguments' brace begins. From there the
arguments stream verbatim.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mlxctl.parsers.declarations import (
    WHITESPACE,
    BodyEnded,
    BodyRejected,
    CallEnded,
    CallStarted,
    Punctuation,
    Signal,
)
from mlxctl.parsers.json_arguments import JsonArguments
from mlxctl.parsers.schemas import ToolSchemas

MAX_HEAD_CHARS = 256
_REJECTED = (BodyRejected(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallHead:
    """How a format writes the head.

    `pattern` matches a whole head and has a group `name`. `may_begin` matches every beginning of one, so that
    what is none is given up early. `tails` are what may stand behind the arguments and is dropped; `opener`
    is what another head begins with. With `is_bare`, the head has no marker that no text has: only tools that
    are on offer are called. `others` are first parts of names that stand for somebody else, unless a tool is
    called so.
    """

    pattern: re.Pattern[str]
    may_begin: re.Pattern[str]
    tails: tuple[str, ...] = ()
    opener: str = ""
    is_bare: bool = False
    others: frozenset[str] = frozenset()


class HeadedJsonBody:
    """One block of calls in a row."""

    def __init__(self, head: CallHead, tools: ToolSchemas) -> None:
        self._head = head
        self._tools = tools
        self._place: Literal["head", "arguments", "after"] = "head"
        self._num_calls = 0
        self._arguments = JsonArguments()

    def read(self, text: str, start: int) -> tuple[int, Sequence[Signal]]:
        """Read up to the next decision; a head is only read once it is whole."""
        match self._place:
            case "head":
                return self._read_head(text, start)
            case "arguments":
                end, signals = self._arguments.read(text, start)
                if self._arguments.is_whole:
                    self._place = "after"
                    self._num_calls += 1
                return end, signals
            case "after":
                return self._read_tail(text, start)

    def finish(self, rest: str) -> Sequence[Signal]:
        """End a started call as it is; a head without arguments is text."""
        if self._place == "arguments":
            return CallEnded(is_complete=False), BodyEnded()
        return (BodyEnded(),) if self._place == "after" and not rest.strip() else _REJECTED

    def _read_head(self, text: str, at: int) -> tuple[int, Sequence[Signal]]:
        end = text.find("{", at)
        if end < 0:
            is_hopeless = len(text) - at > MAX_HEAD_CHARS or not self._head.may_begin.fullmatch(text, at)
            return at, _REJECTED if is_hopeless else ()
        found = self._head.pattern.fullmatch(text, at, end)
        name = "" if found is None else self._tools.resolve(found["name"])
        if not name or (
            not self._tools.may_call(name)
            and (self._head.is_bare or name.partition(".")[0] in self._head.others)
        ):
            return at, _REJECTED
        self._place, self._arguments = "arguments", JsonArguments()
        return end, (CallStarted(name=name),)

    def _read_tail(self, text: str, at: int) -> tuple[int, Sequence[Signal]]:
        while at < len(text) and text[at] in WHITESPACE:
            at += 1
        rest = text[at : at + MAX_HEAD_CHARS]
        if tail := next(filter(rest.startswith, self._head.tails), ""):
            return at + len(tail), (Punctuation(),)
        opener = self._head.opener
        if opener and rest.startswith(opener):
            self._place = "head"
            return at, (Punctuation(),)
        may_come = any(mark.startswith(rest) for mark in (*self._head.tails, opener) if mark)
        return at, () if may_come else (BodyEnded(),)

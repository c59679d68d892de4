"""Tool calls as JSON between `<tool_call>` and `</tool_call>`: Hermes, Qwen 2.5, Qwen3 and their kin.

The body is an object with `name` and `arguments` (or `parameters`), in either order, a list of such objects, or several in
a row. A call starts as soon as its name and the first character of its arguments are known; from there the arguments
stream verbatim. Arguments that are a string of JSON, null, or before the name are awaited whole and then given at once.
"""

import json
from collections.abc import Sequence
from typing import Any, Literal

from mlxctl.parsers.declarations import (
    WHITESPACE,
    BodyEnded,
    BodyRejected,
    CallArguments,
    CallEnded,
    CallStarted,
    Punctuation,
    Signal,
    ToolParser,
)
from mlxctl.parsers.json_value import JsonValueScanner, parse_json

_OPENER = "<tool_call>"
_ARGUMENT_KEYS = ("arguments", "parameters")
_NOTHING: tuple[Signal, ...] = ()
_REJECTED = (BodyRejected(),)

Place = Literal["body", "first_key", "key", "key_text", "colon", "value", "value_text", "arguments_text", "member_end", "after"]


class HermesBody:
    """One block, read character by character around the values; each value is left to a scanner of its own.

    `_place` says what comes next: `*_text` is inside a value, the others are structure.
    """

    def __init__(self) -> None:
        self._in_list = False
        self._begin_object("body")

    def _begin_object(self, place: Place) -> None:
        self._place: Place = place
        self._key = ""
        self._name: str | None = None
        self._arguments: str | None = None
        self._has_ended = False
        self._scanner = JsonValueScanner()

    def read(self, text: str, start: int) -> tuple[int, Sequence[Signal]]:
        """Read up to the next decision."""
        at, signals = start, _NOTHING
        while at < len(text) and not signals:
            if self._place.endswith("_text"):
                at, signals = self._read_value(text, at)
            elif text[at] in WHITESPACE:
                at += 1
            else:
                at, signals = self._read_structure(text, at)
        return at, signals

    def finish(self, rest: str) -> Sequence[Signal]:
        """End a started call as it is; what did not become a call is text."""
        assert not rest, "this reader leaves nothing unread without a decision"
        if self._place == "arguments_text":
            return CallEnded(is_complete=False), BodyEnded()
        return (BodyEnded(),) if self._has_ended else _REJECTED

    def _read_structure(self, text: str, at: int) -> tuple[int, tuple[Signal, ...]]:
        match self._place, text[at]:
            case "body", "[" if not self._in_list:
                self._in_list = True
            case (("body" | "after"), "{"):
                self._begin_object("first_key")
            case "after", ("," | "]") if self._in_list:
                self._in_list = text[at] == ","
            case "after", _:
                return at, (BodyEnded(),)
            case (("first_key" | "key"), '"'):
                return self._begin_value(at, "key_text")
            case "colon", ":":
                self._place = "value"
            case "value", char:
                return self._choose_value(char, at)
            case "member_end", ",":
                self._place = "key"
            case (("first_key" | "member_end"), "}"):
                return at + 1, self._close_object()
            case _:
                return at, _REJECTED
        return at + 1, _NOTHING

    def _choose_value(self, char: str, at: int) -> tuple[int, tuple[Signal, ...]]:
        streams = self._key in _ARGUMENT_KEYS and char == "{" and not self._has_ended
        if streams and self._name is not None:
            self._begin_value(at, "arguments_text")
            return at, (CallStarted(name=self._name),)
        return self._begin_value(at, "value_text")

    def _begin_value(self, at: int, place: Place) -> tuple[int, tuple[Signal, ...]]:
        self._place = place
        self._scanner = JsonValueScanner()
        return at, _NOTHING

    def _read_value(self, text: str, at: int) -> tuple[int, tuple[Signal, ...]]:
        end = self._scanner.scan(text, at)
        if self._place == "arguments_text":
            return end, self._stream_arguments(text[at:end])
        if self._scanner.is_broken:
            return end, _REJECTED
        return end, self._take_value() if self._scanner.is_whole else _NOTHING

    def _stream_arguments(self, fragment: str) -> tuple[Signal, ...]:
        more: tuple[Signal, ...] = (CallArguments(json=fragment),) if fragment else ()
        if self._scanner.is_broken:
            return *more, CallEnded(is_complete=False), BodyEnded()
        if not self._scanner.is_whole:
            return more
        self._place, self._has_ended = "member_end", True
        return *more, CallEnded(is_complete=_is_json_object(self._scanner.text))

    def _take_value(self) -> tuple[Signal, ...]:
        """Keep the whole value for its key, and make the call if nothing is missing any more."""
        try:
            value = self._scanner.parse()
        except ValueError:
            return _REJECTED
        if self._place == "key_text":
            self._key, self._place = value, "colon"
            return _NOTHING
        self._place = "member_end"
        if self._has_ended:
            return _NOTHING
        if self._key == "name" and self._name is None:
            if not isinstance(value, str) or not value:
                return _REJECTED
            self._name = value
        elif self._key in _ARGUMENT_KEYS and self._arguments is None:
            self._arguments = _arguments_text(value, self._scanner.text)
            if self._arguments is None:
                return _REJECTED
        else:
            return _NOTHING
        return self._whole_call() if self._name is not None and self._arguments is not None else _NOTHING

    def _close_object(self) -> tuple[Signal, ...]:
        if not self._has_ended:
            if self._name is None:
                return _REJECTED
            self._arguments = "{}"
        signals = (Punctuation(),) if self._has_ended else self._whole_call()
        self._place = "after"
        return signals

    def _whole_call(self) -> tuple[Signal, ...]:
        assert self._name is not None
        assert self._arguments is not None
        self._has_ended = True
        return CallStarted(name=self._name), CallArguments(json=self._arguments), CallEnded(is_complete=True)


def _arguments_text(value: Any, text: str) -> str | None:
    """The arguments' JSON text if they are an object, a string that holds one, or nothing; else None."""
    if isinstance(value, dict):
        return text
    if value is None or value == "":
        return "{}"
    if isinstance(value, str) and _is_json_object(value):
        return value
    return None


def _is_json_object(text: str) -> bool:
    """Whether the text is a JSON object."""
    try:
        return isinstance(parse_json(text), dict)
    except ValueError:
        return False


def force_call(name: str | None) -> str:
    """Open a block, and for a tool's name go on to its arguments. No space at the end: the model's token brings it."""
    if name is None:
        return _OPENER + "\n"
    return f'{_OPENER}\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments":'


TOOLS = ToolParser(
    id="hermes_json",
    opener=_OPENER,
    closer="</tool_call>",
    open_body=HermesBody,
    forced_prefix=force_call,
    arguments_opening=' {"',
)

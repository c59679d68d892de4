"""Calls as JSON objects: `{"name": "f", "arguments": {"a": 1}}`.

Alone, in a list, or several in a row. The object has a name and arguments, in either order, perhaps inside an
object called `function`. A call starts as soon as its name and the first character of its arguments are
known; from there the arguments stream verbatim. Arguments that are a string of JSON, null, or before the name
are parsed once they are whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mlxctl.formats.parsers.declarations import (
    WHITESPACE,
    BodyEnded,
    BodyRejected,
    CallArguments,
    CallEnded,
    CallStarted,
    Punctuation,
    Signal,
)
from mlxctl.formats.parsers.json_arguments import JsonArguments
from mlxctl.formats.parsers.json_value import JsonValueScanner, is_json_object, json_text
from mlxctl.formats.parsers.schemas import ToolSchemas

_NOTHING: tuple[Signal, ...] = ()
_REJECTED = (BodyRejected(),)

State = Literal[
    "body",
    "first_key",
    "key",
    "key_text",
    "colon",
    "value",
    "value_text",
    "arguments_text",
    "member_end",
    "after",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallObject:
    """How a format writes the object of a call.

    `separators` may stand between objects outside a list. A `is_bare` object has no marker before it: it is a
    call only if all its members are those of calls and it names an available tool. A `is_keyed` object has
    the tool's name as its only key, and the arguments as that key's value.
    """

    name_keys: tuple[str, ...] = ("name",)
    argument_keys: tuple[str, ...] = ("arguments", "parameters")
    separators: str = ""
    is_bare: bool = False
    is_keyed: bool = False


_HERMES = CallObject()
_OTHER_KEYS = ("type", "id", "function")


class JsonCallsBody:
    """Parses one block, character by character around the values.

    A scanner parses each value. `_state` is what follows: `*_text` is inside a value, the others are
    structure. With `is_in_list` the block begins inside a list.
    """

    def __init__(self, tools: ToolSchemas, syntax: CallObject = _HERMES, *, is_in_list: bool = False) -> None:
        self._tools = tools
        self._syntax = syntax
        self._in_list = is_in_list
        self._begin_object("body")

    def _begin_object(self, place: State) -> None:
        self._state: State = place
        self._key = ""
        self._name: str | None = None
        self._arguments: str | None = None
        self._has_ended = False
        self._scanner = JsonValueScanner()
        self._streamed = JsonArguments()

    def read(self, text: str, start: int) -> tuple[int, Sequence[Signal]]:
        """Parse up to the next decision."""
        at, signals = start, _NOTHING
        while at < len(text) and not signals:
            if self._state.endswith("_text"):
                at, signals = self._read_value(text, at)
            elif text[at] in WHITESPACE:
                at += 1
            else:
                at, signals = self._read_structure(text, at)
        return at, signals

    def finish(self, rest: str) -> Sequence[Signal]:
        """End a started call as incomplete; other text is rejected."""
        assert not rest, "this reader leaves nothing unread without a decision"
        if self._state == "arguments_text":
            return CallEnded(is_complete=False), BodyEnded()
        if self._has_ended:
            return (BodyEnded(),)
        if self._name is None or self._syntax.is_bare or self._state in ("key_text", "value_text"):
            return _REJECTED
        return CallStarted(name=self._name), CallEnded(is_complete=False), BodyEnded()

    def _read_structure(self, text: str, at: int) -> tuple[int, tuple[Signal, ...]]:
        match self._state, text[at]:
            case "body", "[" if not self._in_list:
                self._in_list = True
            case (("body" | "after"), "{"):
                self._begin_object("first_key")
            case "after", ("," | "]") if self._in_list:
                self._in_list = text[at] == ","
            case "after", char if char in self._syntax.separators and not self._in_list:
                pass
            case "after", _:
                return at, (BodyEnded(),)
            case (("first_key" | "key"), '"'):
                return self._begin_value(at, "key_text")
            case "colon", ":":
                self._state = "value"
            case "value", char:
                return self._choose_value(char, at)
            case "member_end", ",":
                self._state = "key"
            case (("first_key" | "member_end"), "}"):
                return at + 1, self._close_object()
            case _:
                return at, _REJECTED
        return at + 1, _NOTHING

    def _choose_value(self, char: str, at: int) -> tuple[int, tuple[Signal, ...]]:
        if self._syntax.is_keyed and not self._has_ended:
            self._name, self._key = self._key or None, self._syntax.argument_keys[0]
            if self._name is None:
                return at, _REJECTED
        streams = self._key in self._syntax.argument_keys and char == "{" and not self._has_ended
        if streams and self._name is not None:
            self._state = "arguments_text"
            return at, (CallStarted(name=self._name),)
        return self._begin_value(at, "value_text")

    def _begin_value(self, at: int, place: State) -> tuple[int, tuple[Signal, ...]]:
        self._state = place
        self._scanner = JsonValueScanner()
        return at, _NOTHING

    def _read_value(self, text: str, at: int) -> tuple[int, tuple[Signal, ...]]:
        if self._state == "arguments_text":
            end, signals = self._streamed.read(text, at)
            if self._streamed.is_whole:
                self._state, self._has_ended = "member_end", True
            return end, signals
        end = self._scanner.scan(text, at)
        if self._scanner.is_broken:
            return end, _REJECTED
        return end, self._take_value() if self._scanner.is_whole else _NOTHING

    def _take_value(self) -> tuple[Signal, ...]:
        """Assign the whole value to its key.

        Emits the call if it is complete.
        """
        try:
            value = self._scanner.parse()
        except ValueError:
            return _REJECTED
        if self._state == "key_text":
            self._key, self._state = value, "colon"
            return _NOTHING if self._knows_key(value) else _REJECTED
        self._state = "member_end"
        if self._has_ended:
            return _NOTHING
        if not (
            self._take_member(value, self._scanner.text)
            if self._key != "function"
            else self._take_function(value)
        ):
            return _REJECTED
        return self._whole_call() if self._name is not None and self._arguments is not None else _NOTHING

    def _knows_key(self, key: str) -> bool:
        known = (*self._syntax.name_keys, *self._syntax.argument_keys, *_OTHER_KEYS)
        return not self._syntax.is_bare or self._has_ended or key in known

    def _take_member(self, value: Any, text: str) -> bool:
        """Store a name or arguments.

        Returns whether the object may still be a call.
        """
        if self._key in self._syntax.name_keys and self._name is None:
            if (
                not isinstance(value, str)
                or not value
                or (self._syntax.is_bare and not self._tools.has_tool(value))
            ):
                return False
            self._name = value
        elif self._key in self._syntax.argument_keys and self._arguments is None:
            self._arguments = _arguments_text(value, text)
            return self._arguments is not None
        elif self._syntax.is_bare and self._key == "type":
            return bool(value == "function")
        return True

    def _take_function(self, value: Any) -> bool:
        """Take name and arguments from OpenAI's `function` object.

        Llama may write only the name there.
        """
        if isinstance(value, str):
            self._name = self._name or value or None
            return not self._syntax.is_bare or self._tools.has_tool(value)
        if isinstance(value, dict):
            for key in (*self._syntax.name_keys, *self._syntax.argument_keys):
                self._key = key
                if key in value and not self._take_member(value[key], json_text(value[key])):
                    return False
        return True

    def _close_object(self) -> tuple[Signal, ...]:
        if not self._has_ended:
            if self._name is None:
                return _REJECTED
            self._arguments = "{}"
        signals = (Punctuation(),) if self._has_ended else self._whole_call()
        self._state = "after"
        return signals

    def _whole_call(self) -> tuple[Signal, ...]:
        assert self._name is not None
        assert self._arguments is not None
        self._has_ended = True
        return CallStarted(name=self._name), CallArguments(json=self._arguments), CallEnded(is_complete=True)


def _arguments_text(value: Any, text: str) -> str | None:
    """Return the arguments' JSON text, None if they are no object.

    A string may hold the object; null and "" are empty arguments.
    """
    if isinstance(value, dict):
        return text or None
    if value is None or value == "":
        return "{}"
    if isinstance(value, str) and is_json_object(value):
        return value
    return None

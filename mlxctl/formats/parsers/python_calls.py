"""Python calls: `[f(a=1), g(b="x")]`, in a list or in a row.

A call is certain with its first keyword, or its closing parenthesis. Strings stream, with escapes resolved;
other values are parsed once whole. Positional arguments get their names, in order, from the schema.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mlxctl.formats.parsers.argument_values import value_as_json
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
from mlxctl.formats.parsers.json_value import escape, quote
from mlxctl.formats.parsers.python_value import PythonValueScanner, literal_as_json, unescape
from mlxctl.formats.parsers.schemas import STRING, Kinds, ToolSchemas
from mlxctl.formats.parsers.steps import Step, read_steps

MAX_NAME_CHARS = 128
_NAME = re.compile(r"[^\W\d][\w.-]*")
_KEYWORD = re.compile(r"([^\W\d]\w*)\s*(=?)(.?)", re.DOTALL)
_CUT_KEYWORD = re.compile(r"\s*\w{0,64}\s*=?\s*")
_BEHIND_QUOTE = re.compile(
    r"\s*(?:(?P<call_end>\)[\s)]*(?P<behind_call>[^\s)]|\n\Z)?)|(?P<next>,\s*(?P<word>[\w]+\s*(?P<equals>=?)|\S)?)|(?P<other>\S))"
)
_PLAIN = re.compile(r"[^\\'\"]+")
_PARTIAL_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-7]{1,2}|\r)?\Z")
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|\r\n|.)", re.DOTALL)

State = Literal["name", "argument", "value", "string", "value_end", "call_end", "between"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFormat:
    """How a format writes Python.

    `wrapper` is a function that may enclose a call, since the model writes a program. A `is_bare` list has no
    marker before it: only available tools are called.
    """

    wrapper: str = ""
    is_bare: bool = False


_PLAIN_FORMAT = PythonFormat()


class PythonCallsBody:
    """Parses one block of calls in Python syntax.

    Each step parses one token or a part of one value; None means that it needs more text.
    """

    def __init__(self, tools: ToolSchemas, syntax: PythonFormat = _PLAIN_FORMAT) -> None:
        self._tools = tools
        self._syntax = syntax
        self._state: State = "name"
        self._list: Literal["none", "open", "closed"] = "none"
        self._is_wrapped = False
        self._num_calls = 0
        self._begin = 0
        self._begin_call("")

    def _begin_call(self, name: str) -> None:
        self._name = name
        self._is_started = False
        self._is_keyword = False
        self._num_arguments = 0
        self._kinds: Kinds = None
        self._quote = ""
        self._scanner = PythonValueScanner()

    def read(self, text: str, start: int) -> Step:
        """Parse up to the next decision."""
        return read_steps(self._step, text, start)

    def finish(self, rest: str) -> Sequence[Signal]:
        """End a started call as incomplete; other text is rejected."""
        signals: list[Signal] = []
        if self._state == "string" and rest.startswith(self._quote):
            # The stream is over: nothing can continue the string.
            at, more = self.read(rest + "\n", 0)
            while more:
                signals += more
                at, more = self.read(rest + "\n", at)
            rest = (rest + "\n")[at:-1] if at <= len(rest) else ""
        return *signals, *self._finish(rest)

    def _finish(self, rest: str) -> Sequence[Signal]:
        if self._is_started:
            value = self._scanner.text + rest if self._state == "value" else ""
            cut = escape(rest) if self._state == "string" else self._value(value) if value.strip() else ""
            return *_arguments_delta(cut), CallEnded(is_complete=False), BodyEnded()
        if self._state == "argument" and not self._syntax.is_bare and _CUT_KEYWORD.fullmatch(rest):
            return CallStarted(name=self._name), CallEnded(is_complete=False), BodyEnded()
        is_over = self._num_calls and self._state in ("name", "call_end", "between") and not rest.strip()
        return (BodyEnded(),) if is_over else (BodyRejected(),)

    def _step(self, text: str, at: int) -> Step | None:
        self._begin = at
        if self._state not in ("string", "value"):
            while at < len(text) and text[at] in WHITESPACE:
                at += 1
        if at == len(text):
            return None
        match self._state:
            case "name":
                return self._read_name(text, at)
            case "argument":
                return self._read_argument(text, at)
            case "value":
                return self._read_value(text, at)
            case "string":
                return self._read_string(text, at)
            case "value_end":
                return self._read_value_end(text, at)
            case "call_end":
                self._state, self._is_wrapped = "between", False
                return (at + 1, (Punctuation(),)) if text[at] == ")" else (at, ())
            case "between":
                return self._read_between(text, at)

    def _give_up(self, at: int) -> Step:
        """Reject the block, or end it at a call that has started."""
        if self._is_started:
            return self._begin, (CallEnded(is_complete=False), BodyEnded())
        return at, (BodyRejected(),)

    def _read_name(self, text: str, at: int) -> Step | None:
        if text[at] == "[" and self._list == "none" and not self._num_calls:
            self._list = "open"
            return at + 1, ()
        if text[at] == "]" and self._list == "open" and self._num_calls:
            self._state, self._list = "between", "closed"
            return at + 1, (Punctuation(),)
        name = _NAME.match(text, at)
        if name is None or name.end() - at > MAX_NAME_CHARS:
            return self._give_up(at)
        if name.end() == len(text):
            return None
        if text[name.end()] != "(":
            return self._give_up(at)
        if name[0] == self._syntax.wrapper and not self._is_wrapped and not self._num_calls:
            self._is_wrapped = True
            return name.end() + 1, ()
        resolved = self._tools.resolve(name[0])
        if self._syntax.is_bare and not self._tools.has_tool(resolved):
            return self._give_up(at)
        self._begin_call(resolved)
        self._state = "argument"
        return name.end() + 1, ()

    def _read_argument(self, text: str, at: int) -> Step | None:
        if text[at] == ")":
            return self._end_call(at)
        keyword = _KEYWORD.match(text, at)
        if keyword is not None and not keyword[3] and keyword.end() == len(text):
            return None
        if keyword is not None and keyword[2] and keyword[3] != "=":
            self._is_keyword = True
            return self._begin_value(keyword[1], keyword.end(2))
        names = self._tools.argument_names(self._name)[self._num_arguments :]
        return self._begin_value(names[0], at) if names else self._give_up(at)

    def _begin_value(self, name: str, at: int) -> Step:
        self._kinds = self._tools.kinds(self._name, name)
        self._state, self._scanner = "value", PythonValueScanner()
        started = () if self._is_started else (CallStarted(name=self._name),)
        self._is_started = True
        separator = ", " if self._num_arguments else "{"
        self._num_arguments += 1
        return at, (*started, CallArguments(json=f"{separator}{quote(name)}: "))

    def _read_value(self, text: str, at: int) -> Step | None:
        if not self._scanner.text.strip():
            begin = at + len(text[at:]) - len(text[at:].lstrip(WHITESPACE))
            if begin == len(text):
                return None
            if text[begin] in "'\"":
                return self._begin_string(text, begin)
            at = begin
        end = self._scanner.scan(text, at)
        if not self._scanner.is_whole:
            return (end, ()) if end > at else None
        self._state = "value_end"
        return end, (CallArguments(json=self._value(self._scanner.text)),)

    def _value(self, text: str) -> str:
        """Return the JSON text of a value that is no string literal."""
        if self._kinds == STRING:
            return quote(text.strip())
        return literal_as_json(text) or value_as_json(text.strip(), self._kinds)

    def _begin_string(self, text: str, at: int) -> Step | None:
        char, next_two = text[at], text[at + 1 : at + 3]
        if len(next_two) < 2 and next_two == char * len(next_two):
            return None
        self._quote = char * 3 if next_two == char * 2 else char
        self._state = "string"
        return at + len(self._quote), (CallArguments(json='"'),)

    def _read_string(self, text: str, at: int) -> Step | None:
        if plain := _PLAIN.match(text, at):
            return plain.end(), _arguments_delta(escape(plain[0]))
        if text.startswith(self._quote, at):
            return self._read_quote(text, at)
        if text[at] == "\\":
            return self._read_escape(text, at)
        if self._quote.startswith(text[at:]):
            return None
        return at + 1, _arguments_delta(escape(text[at]))

    def _read_quote(self, text: str, at: int) -> Step | None:
        """End the string, unless it continues after the quote.

        Some templates teach models not to escape quotes.
        """
        end = at + len(self._quote)
        if len(self._quote) == 1:
            ends = self._string_ends(text, end)
            if ends is None:
                return None
            if not ends:
                return end, _arguments_delta(escape(self._quote))
        self._state = "value_end"
        return end, (CallArguments(json='"'),)

    def _string_ends(self, text: str, at: int) -> bool | None:
        """Whether the text after a quote ends the argument; None if undecided."""
        after = _BEHIND_QUOTE.match(text, at)
        if after is None:
            return None
        if after["call_end"]:
            return None if after["behind_call"] is None else after["behind_call"] not in "'\""
        if after["next"]:
            if after["word"] is None or (not after["equals"] and after.end() == len(text)):
                return None
            return bool(after["equals"]) or not self._is_keyword
        return after["other"] in "]}<+"

    def _read_escape(self, text: str, at: int) -> Step | None:
        if _PARTIAL_ESCAPE.match(text, at):
            return None
        found = _ESCAPE.match(text, at)
        assert found is not None, "a backslash with a character after it"
        return found.end(), _arguments_delta(escape(unescape(found[0])))

    def _read_value_end(self, text: str, at: int) -> Step | None:
        if text[at] == ")":
            return self._end_call(at)
        if text[at] != ",":
            return self._give_up(at)
        self._state = "argument"
        return at + 1, (Punctuation(),)

    def _end_call(self, at: int) -> Step:
        started = () if self._is_started else (CallStarted(name=self._name),)
        arguments = "}" if self._num_arguments else "{}"
        self._is_started = False
        self._num_calls += 1
        self._state = "call_end" if self._is_wrapped else "between"
        return at + 1, (*started, CallArguments(json=arguments), CallEnded(is_complete=True))

    def _read_between(self, text: str, at: int) -> Step | None:
        if self._list == "open" and text[at] in ",]":
            self._state = "name" if text[at] == "," else "between"
            self._list = "open" if text[at] == "," else "closed"
            return at + 1, (Punctuation(),)
        if self._list == "none" and text[at] == ";":
            return at + 1, (Punctuation(),)
        name = _NAME.match(text, at) if self._list == "none" else None
        if name is None:
            return at, (BodyEnded(),)
        if name.end() == len(text) and name.end() - at <= MAX_NAME_CHARS:
            return None
        if text[name.end() : name.end() + 1] != "(":
            return at, (BodyEnded(),)
        self._state = "name"
        return at, (Punctuation(),)


def _arguments_delta(json: str) -> tuple[Signal, ...]:
    return (CallArguments(json=json),) if json else ()

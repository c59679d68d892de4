"""Calls with a tag for each argument.

Such as `<function=f><parameter=a>1</parameter></function>`. A call is certain once its name and the first tag
after it are parsed. The arguments are assembled as JSON: a value that the schema declares as a string
streams, any other is converted once it is whole. Models sometimes write all arguments as one JSON object, or
a call without arguments as one tag, `<function=f/>`.
"""

import re
from collections.abc import Sequence
from html import unescape
from typing import Literal

from mlxctl.formats.parsers.call_tags import MAX_TAG_CHARS, CallTags, compare, skip_white_space
from mlxctl.formats.parsers.declarations import (
    BodyEnded,
    BodyRejected,
    CallArguments,
    CallEnded,
    CallStarted,
    Signal,
)
from mlxctl.formats.parsers.json_arguments import JsonArguments
from mlxctl.formats.parsers.json_value import escape, json_text, quote
from mlxctl.formats.parsers.markers import MarkerSet
from mlxctl.formats.parsers.schemas import STRING, SchemaNode, ToolSchemas
from mlxctl.formats.parsers.steps import Step, read_steps
from mlxctl.formats.parsers.value_scanner import ValueScanner
from mlxctl.formats.parsers.value_wrappers import CDATA, CDATA_END, WRAPPERS, without_cdata, wrapped_arguments

_NAME = re.compile(r"""["']?(?P<name>[^\s"'<>={}\[\](),\\]*?)["']?(?:\s|\\n?)*(?P<end>/?)""")
_BREAKS = re.compile(r"(?:[ \t\r\n]|\\n)*")
_NAME_TAG = re.compile(
    r"""\s*(?:["'](?P<quoted>[^"'\n]+)["'](?:\s[^\n]*)?|(?P<bare>[^\s"'<>={}\[\](),]+)\s*)"""
)
# The beginning of a tag with attributes, which is no text where the answer is cut off.
_CUT_NAME_TAG = re.compile(r"""\s*["'][^"'\s]*(?:["']\s*(?:\w+(?:=["']?\w*["']?)?)?)?""")

State = Literal["between", "name", "named", "json", "json_end", "inside", "key", "value_start", "value"]


class TaggedCallsBody:
    """Parses one block of tagged calls.

    With `is_named` the block's marker was the first call's opener. Each step parses one tag or a part of one
    value; None means that it needs more text.
    """

    def __init__(self, tags: CallTags, tools: ToolSchemas, *, is_named: bool = False) -> None:
        self._tags = tags
        self._tools = tools
        self._state: State = "name" if is_named or not tags.call_opener else "between"
        self._name = ""
        self._num_calls = 0
        self._num_arguments = 0
        self._key = ""
        self._is_wrapper = False
        self._schema = SchemaNode()
        self._pieces: list[str] = []
        self._is_streaming = False
        self._is_trimmed = False
        self._json = JsonArguments()
        self._keys: set[str] = set()
        self._values = ValueScanner(tags, is_bare=is_named)
        next_call = (tag for tag in (tags.call_opener, tags.block_opener) if tag)
        self._ends = {"named": tags.block_closers, "inside": (*tags.block_closers, *next_call)}
        self._any_tag = MarkerSet(
            (tags.key_opener, *tags.other_key_openers, tags.call_closer, *tags.block_closers)
        )

    def read(self, text: str, start: int) -> Step:
        """Parse up to the next decision."""
        return read_steps(self._step, text, start)

    def finish(self, rest: str) -> Sequence[Signal]:
        """End a started call as incomplete; other text is rejected.

        An available tool's name, perhaps with the beginning of a tag after it, is a started call.
        """
        if self._state == "value":
            _, tag = self._values.scan(rest, 0, is_final=True)
            if tag is not None:
                return self._finish_after(*self._close_value(rest, 0, tag), rest)
        if self._state in ("inside", "json", "key", "value_start", "value"):
            return *self._unfinished_value(rest), CallEnded(is_complete=False), BodyEnded()
        if self._state == "name" and self._tags.name_end and _CUT_NAME_TAG.fullmatch(rest):
            return (BodyEnded(),)
        if self._state == "named" and self._tools.is_available(self._name) and self._may_be_tag(rest.strip()):
            return CallStarted(name=self._name), CallEnded(is_complete=False), BodyEnded()
        is_over = self._state in ("between", "json_end") and self._num_calls and not rest.strip()
        return (BodyEnded(),) if is_over else (BodyRejected(),)

    def _finish_after(self, at: int, last: Sequence[Signal], rest: str) -> Sequence[Signal]:
        """Return the decisions after a value that the answer's end closed."""
        signals = list(last)
        while not isinstance(signals[-1], BodyEnded | BodyRejected):
            at, more = self.read(rest, at)
            signals += more or self.finish(rest[at:])
        return signals

    def _may_be_tag(self, text: str) -> bool:
        tags = self._tags.call_closer, self._tags.key_opener, *self._tags.other_key_openers
        return any(tag.startswith(text) for tag in tags)

    def _step(self, text: str, at: int) -> Step | None:
        match self._state:
            case "between":
                return self._read_call_opener(text, at)
            case "name":
                return self._read_name(text, at)
            case "named" | "inside":
                return self._read_tag(text, at)
            case "json":
                return self._read_json(text, at)
            case "json_end":
                return self._read_json_end(text, at)
            case "key":
                return self._read_key(text, at)
            case "value_start":
                return self._choose_closer(text, at)
            case "value":
                return self._read_value(text, at)

    def _read_call_opener(self, text: str, at: int) -> Step | None:
        opener = self._tags.call_opener
        begin = skip_white_space(text, at)
        found = compare(text, begin, opener)
        if found is None:
            return None
        if not found or not opener:
            return at, (BodyEnded() if self._num_calls else BodyRejected(),)
        self._state = "name"
        return begin + len(opener), ()

    def _read_name(self, text: str, at: int) -> Step | None:
        if self._tags.name_end:
            return self._read_name_tag(text, at)
        begin = skip_white_space(text, at)
        end = next(
            (index for index in range(begin, len(text)) if text[index] in self._tags.name_ends), len(text)
        )
        name = _NAME.fullmatch(text[begin:end].rstrip())
        if name is None or end - begin > MAX_TAG_CHARS:
            return at, (BodyRejected(),)
        if end == len(text):
            return None
        if not name["name"] or (
            self._tags.only_available and not self._tools.has_tool(self._tools.resolve(name["name"]))
        ):
            return at, (BodyRejected(),)
        self._values.has_escaped_breaks |= "\\n" in text[begin:end]
        self._begin_call(name["name"])
        at = end if text[end] == "<" else end + 1
        if not name["end"]:
            return at, ()
        self._state, self._num_calls = "between", self._num_calls + 1
        return at, (CallStarted(name=self._name), CallArguments(json="{}"), CallEnded(is_complete=True))

    def _read_name_tag(self, text: str, at: int) -> Step | None:
        # Some models continue without the end of the name.
        ends = (self._tags.name_end, self._tags.key_opener, self._tags.call_closer)
        found_ends = ((text.find(tag, at), tag) for tag in ends if tag in text[at:])
        end, tag = min(found_ends, default=(-1, ""))
        if end < 0 and len(text) - at <= MAX_TAG_CHARS:
            return None
        found = _NAME_TAG.fullmatch(text, at, max(end, at))
        if found is None:
            return at, (BodyRejected(),)
        self._begin_call(unescape(found["quoted"] or found["bare"]))
        return end + len(tag) * (tag == self._tags.name_end), ()

    def _begin_call(self, name: str) -> None:
        self._name, self._state, self._num_arguments = self._tools.resolve(name), "named", 0
        self._keys = set()

    def _read_tag(self, text: str, at: int) -> Step | None:
        begin = _skip_breaks(text, at)
        if text[begin:] == "\\":
            return None
        self._values.has_escaped_breaks |= "\\" in text[at:begin]
        closes = compare(text, begin, self._tags.call_closer)
        key_openers = self._tags.key_opener, *self._tags.other_key_openers
        opens = [compare(text, begin, opener) for opener in key_openers]
        ends = [compare(text, begin, tag) for tag in self._ends[self._state]]
        if closes or (any(opens) and None not in (closes, *ends)) or any(ends):
            if self._state == "named":
                self._state = "inside"
                return at, (CallStarted(name=self._name),)
            if closes or any(ends):
                return self._end_call(begin, len(self._tags.call_closer) if closes else 0)
            self._state = "key"
            return begin + len(key_openers[opens.index(True)]), ()
        if None in (closes, *opens, *ends):
            return None
        if self._state == "named":
            return self._begin_json(text, begin)
        return self._skip_text(text, begin)

    def _begin_json(self, text: str, at: int) -> Step | None:
        """Begin arguments that are one JSON object, perhaps in tags."""
        opener = self._tags.json_opener
        if opener and (opens := compare(text, at, opener)) is not False:
            end = text.find(self._tags.key_end, at) if opens else -1
            if end < 0:
                return None if len(text) - at <= MAX_TAG_CHARS else (at, (BodyRejected(),))
            at = skip_white_space(text, end + len(self._tags.key_end))
            if at == len(text):
                return None
        if text[at] != "{":
            return at, (BodyRejected(),)
        self._state, self._json = "json", JsonArguments()
        return at, (CallStarted(name=self._name),)

    def _skip_text(self, text: str, at: int) -> Step | None:
        """Skip text between two tags, where tags cannot be text."""
        tags = self._tags
        if tags.skips_text:
            found = self._any_tag.find(text[at : at + MAX_TAG_CHARS])
            if found is not None:
                return at + found.start(), ()
            if len(text) - at <= MAX_TAG_CHARS:
                return None
        return at, (CallEnded(is_complete=False), BodyEnded())

    def _read_json(self, text: str, at: int) -> Step | None:
        end, signals = self._json.read(text, at)
        if self._json.is_whole:
            self._state = "json_end"
            self._num_calls += 1
        return (end, signals) if signals else None

    def _read_json_end(self, text: str, at: int) -> Step | None:
        """Consume the closing tag after JSON arguments."""
        begin = skip_white_space(text, at)
        if closer := self._tags.json_closer:
            closes = compare(text, begin, closer)
            if closes is None:
                return None
            begin = skip_white_space(text, begin + len(closer) * closes)
        closes = compare(text, begin, self._tags.call_closer)
        if closes is None:
            return None
        self._state = "between"
        return (begin + self._closer_length if closes else at), ()

    @property
    def _closer_length(self) -> int:
        """Length of a call's closing tag.

        That of a call without an opener is the block's: the machine consumes it.
        """
        return len(self._tags.call_closer) if self._tags.call_opener else 0

    def _end_call(self, at: int, length: int) -> Step:
        self._state = "between"
        self._num_calls += 1
        closing = "}" if self._num_arguments else "{}"
        return at + min(length, self._closer_length), (
            CallArguments(json=closing),
            CallEnded(is_complete=True),
        )

    def _read_key(self, text: str, at: int) -> Step | None:
        if (orphan := self._tags.orphan_end(text, at)) is not None:
            self._state = "inside"
            return orphan, ()
        found = self._tags.key_at(text, at)
        if found is None:
            return None
        if found is False:
            return at, (CallEnded(is_complete=False), BodyEnded())
        (self._key, is_string), end = found
        self._schema = self._schema_of(self._key, is_string)
        self._state, self._pieces = "value_start", []
        self._is_wrapper = self._may_wrap(self._key)
        self._is_streaming = (
            self._schema.kinds == STRING and not self._tags.has_cdata and not self._is_wrapper
        )
        return end, () if self._is_wrapper else (
            CallArguments(json=self._open_value() + '"' * self._is_streaming),
        )

    def _open_value(self) -> str:
        opening = f"{self._separator}{quote(self._key)}: "
        self._num_arguments += 1
        return opening

    def _may_wrap(self, key: str) -> bool:
        """Whether the key may enclose all arguments.

        True only for a tool that has no argument of this name.
        """
        names = self._tools.argument_names(self._name)
        return key in WRAPPERS and not self._num_arguments and bool(names) and key not in names

    @property
    def _separator(self) -> str:
        return ", " if self._num_arguments else "{"

    def _schema_of(self, name: str, is_string: bool | None) -> SchemaNode:
        schema = self._tools.schema(self._name, name)
        kinds = schema.kinds
        if is_string and kinds is not None and "string" not in kinds:
            return schema
        if is_string:
            return schema.narrowed(STRING)
        return (
            schema.narrowed(kinds - {"string"})
            if kinds and kinds != STRING and is_string is False
            else schema
        )

    def _choose_closer(self, text: str, at: int) -> Step | None:
        """Determine how the value ends; drop the characters trimmed before it."""
        is_section = self._tags.has_cdata and compare(text, skip_white_space(text, at), CDATA)
        if is_section is None:
            return None
        trims = compare(text, at, self._tags.trims)
        if trims is None:
            return None
        self._state = "value"
        names = self._tools.argument_names(self._name)
        self._values.begin(
            self._key, self._schema.kinds, known=names, given=self._keys, is_section=is_section
        )
        self._keys.add(self._key)
        self._is_trimmed = trims or self._tags.trims_sides_alone
        return at + len(self._tags.trims) * trims, ()

    def _read_value(self, text: str, at: int) -> Step | None:
        end, tag = self._values.scan(text, at)
        if tag is not None:
            return self._close_value(text, at, tag)
        return (end, self._take(text[at:end])) if end > at else None

    def _close_value(self, text: str, at: int, tag: re.Match[str]) -> Step:
        self._state = "inside"
        begin = tag.start() + len(CDATA_END) * tag[0].startswith(CDATA_END)
        is_trimmed = self._is_trimmed and not tag[0].startswith(self._tags.trims)
        value = text[at:begin].removesuffix(self._tags.trims if is_trimmed else "")
        end = tag.end() if self._values.is_closer(tag[0]) else tag.start()
        return end, (*self._take(value), *self._end_value())

    def _take(self, text: str) -> Sequence[Signal]:
        """Emit more of a streaming value, or collect it."""
        if self._is_streaming:
            return (CallArguments(json=escape(text)),) if text else ()
        self._pieces.append(text)
        return ()

    def _end_value(self) -> Sequence[Signal]:
        if self._is_streaming:
            return (CallArguments(json='"'),)
        text = "".join(self._pieces)
        json = self._tags.read_value(without_cdata(text) if self._tags.has_cdata else text, self._schema)
        if not self._is_wrapper:
            return (CallArguments(json=json),)
        arguments = wrapped_arguments(json, self._tools.argument_names(self._name))
        if arguments is None:
            return (CallArguments(json=self._open_value() + json),)
        self._num_arguments += len(arguments)
        return (CallArguments(json=json_text(arguments)[:-1]),) if arguments else ()

    def _unfinished_value(self, rest: str) -> Sequence[Signal]:
        """Return the JSON of a value that never ended.

        A string stays open. A key without a value is dropped.
        """
        if self._state not in ("value", "value_start"):
            return ()
        more = self._take(rest[: len(rest) - self._values.partial_length(rest)])
        return more if self._is_streaming else self._end_value()


def _skip_breaks(text: str, at: int) -> int:
    """Skip white space and line breaks that the model escaped."""
    found = _BREAKS.match(text, at)
    return found.end() if found else at

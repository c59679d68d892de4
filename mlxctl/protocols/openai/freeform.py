"""Tools that take any text (OpenAI's `custom` tools): to a model they are functions of one string.

The format of such an input may be a regular expression, which every call is held to, or a Lark grammar. The
latter is told to the model and not enforced: in most formats of calls the text is a JSON string, in which a
grammar of the text cannot be followed.
"""

import json
import re
from typing import Any, Literal

from msgspec import Struct
from msgspec.json import encode

from mlxctl.ir import ToolSpec
from mlxctl.protocols.structured_output import Source

_HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_HEAD_BEGINS = re.compile(r'\s*(?:\{\s*(?:"(?:i(?:n(?:p(?:u(?:t(?:"\s*(?::\s*)?)?)?)?)?)?)?)?)?')
# Characters of a JSON string, each whole: one outside the basic plane is written as two escapes.
_CHARACTERS = re.compile(
    r'(?:[^"\\]|\\[^u]|\\u[0-9a-fA-F]{0,3}(?=[^0-9a-fA-F])|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}'
    r"(?:\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?=[^\\]|\\[^u]|\\u[0-9a-fA-F]{0,3}[^0-9a-fA-F]|\\u(?![dD][c-fC-F])[0-9a-fA-F]{4})))*"
)
_ESCAPE = re.compile(r'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\')


class InputGrammar(Struct):
    """What an input has to look like."""

    definition: Source
    syntax: Literal["lark", "regex"]


def freeform_spec(
    name: str, *, description: str | None, grammar: InputGrammar | None, param: str
) -> ToolSpec:
    """Return the function that a model is offered as `name`; `param` is the field of the grammar's
    definition.
    """
    text: dict[str, Any] = {"type": "string"}
    told, pattern = description or "", ""
    if grammar is not None and grammar.syntax == "regex":
        pattern = grammar.definition
        text["pattern"] = f"^(?:{pattern})$"
    elif grammar is not None:
        told += f"\n\nThe input has to follow this grammar, in the syntax of Lark:\n{grammar.definition}"
    parameters = {
        "type": "object",
        "properties": {"input": text},
        "required": ["input"],
        "additionalProperties": False,
    }
    return ToolSpec(
        name=name,
        description=told.strip(),
        parameters=parameters,
        is_strict=bool(pattern),
        text_pattern=pattern,
        param=param,
    )


def freeform_arguments(text: str) -> str:
    """Return an input as the arguments of the function that its tool is to a model."""
    return encode({"input": text}).decode()


class FreeformInput:
    """Reads the text out of a call's arguments as they come.

    Arguments of another form are the text themselves.
    """

    def __init__(self) -> None:
        self._held = ""
        self._place: Literal["head", "text", "behind", "elsewhere"] = "head"

    @classmethod
    def of(cls, arguments: str) -> str:
        """Return the text in whole arguments."""
        reader = cls()
        return reader.feed(arguments) + reader.finish()

    def feed(self, arguments: str) -> str:
        """Take more of the arguments' JSON and return what it says of the text."""
        self._held += arguments
        if self._place == "head":
            self._find_text()
        return self._read() if self._place == "text" else ""

    def finish(self) -> str:
        """Return what was held back."""
        return _input_of_object(self._held) if self._place in ("head", "elsewhere") else ""

    def _find_text(self) -> None:
        if head := _HEAD.match(self._held):
            self._held, self._place = self._held[head.end() :], "text"
        elif not _HEAD_BEGINS.fullmatch(self._held):
            self._place = "elsewhere"

    def _read(self) -> str:
        whole = _CHARACTERS.match(self._held)
        assert whole is not None, "the pattern takes an empty text"
        self._held = self._held[whole.end() :]
        if self._held.startswith('"'):
            self._place = "behind"
        return _decode_text(whole[0])


def _decode_text(text: str) -> str:
    """Return what a part of a JSON string says; a backslash that escapes nothing is one."""
    whole = _ESCAPE.sub(lambda found: found[1] or r"\\", text)
    said: str = json.loads(f'"{whole}"', strict=False)
    return said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _input_of_object(arguments: str) -> str:
    try:
        fields = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    said = fields.get("input") if isinstance(fields, dict) else None
    return said if isinstance(said, str) else arguments

"""OpenAI's custom tools, which take free text.

To a model they are functions of one string. The text may have a format: a regular expression, which is
enforced, or a Lark grammar, which is put into the description and not enforced, because most call formats
wrap the text in a JSON string.
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
# Whole characters of a JSON string; one outside the basic plane is two escapes.
_CHARACTERS = re.compile(
    r'(?:[^"\\]|\\[^u]|\\u[0-9a-fA-F]{0,3}(?=[^0-9a-fA-F])|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}'
    r"(?:\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?=[^\\]|\\[^u]|\\u[0-9a-fA-F]{0,3}[^0-9a-fA-F]|\\u(?![dD][c-fC-F])[0-9a-fA-F]{4})))*"
)
_ESCAPE = re.compile(r'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\')


class InputGrammar(Struct):
    """The format of a custom tool's input."""

    definition: Source
    syntax: Literal["lark", "regex"]


def freeform_spec(
    name: str, *, description: str | None, grammar: InputGrammar | None, param: str
) -> ToolSpec:
    """Return the function of a custom tool.

    `param` is the field of its grammar's definition.
    """
    text: dict[str, Any] = {"type": "string"}
    full_description, pattern = description or "", ""
    if grammar is not None and grammar.syntax == "regex":
        pattern = grammar.definition
        text["pattern"] = f"^(?:{pattern})$"
    elif grammar is not None:
        full_description += (
            f"\n\nThe input has to follow this grammar, in the syntax of Lark:\n{grammar.definition}"
        )
    parameters = {
        "type": "object",
        "properties": {"input": text},
        "required": ["input"],
        "additionalProperties": False,
    }
    return ToolSpec(
        name=name,
        description=full_description.strip(),
        parameters=parameters,
        is_strict=bool(pattern),
        text_pattern=pattern,
        param=param,
    )


def freeform_arguments(text: str) -> str:
    """Return the function arguments of an input."""
    return encode({"input": text}).decode()


class FreeformInput:
    """Reads the input out of a call's arguments, piece by piece.

    Arguments of another shape are the input themselves.
    """

    def __init__(self) -> None:
        self._held = ""
        self._place: Literal["head", "text", "behind", "elsewhere"] = "head"

    @classmethod
    def of(cls, arguments: str) -> str:
        """Return the input in whole arguments."""
        reader = cls()
        return reader.feed(arguments) + reader.finish()

    def feed(self, arguments: str) -> str:
        """Take more arguments and return the input in them."""
        self._held += arguments
        if self._place == "head":
            self._find_text()
        return self._read() if self._place == "text" else ""

    def finish(self) -> str:
        """Return the text that is still held back."""
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
    """Decode a part of a JSON string.

    An invalid escape keeps its backslash.
    """
    whole = _ESCAPE.sub(lambda found: found[1] or r"\\", text)
    text_input: str = json.loads(f'"{whole}"', strict=False)
    return text_input.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _input_of_object(arguments: str) -> str:
    try:
        fields = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    text_input = fields.get("input") if isinstance(fields, dict) else None
    return text_input if isinstance(text_input, str) else arguments

"""What an answer has to look like, as it was asked for and as the engine is told. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

ConstraintKind = Literal["json_object", "json_schema", "grammar", "regex", "choice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """The form that a visible answer must have.

    `value` is a JSON schema (also for json_object), the text of a Lark or GBNF grammar, a regular expression,
    or the choices. `param` is the caller's field that it came from, for refusals. What of a schema cannot be
    enforced is refused if `is_strict`, and left to the model otherwise.
    """

    kind: ConstraintKind
    value: Mapping[str, Any] | bool | str | tuple[str, ...]
    param: str
    is_strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingLimit:
    """How long a model may think: after `max_tokens` tokens of it `closing_ids` are put in, unless
    `closer_ids` came by then.

    Thinking begins at once if it `is_open`, or else behind `opener_ids`, if they come first.
    """

    max_tokens: int
    is_open: bool
    opener_ids: tuple[int, ...]
    closer_ids: tuple[int, ...]
    closing_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """What decides about tokens by those before them.

    `grammar` is llguidance's own notation, compiled and checked, "" for none; `grammar_start` is text that it
    begins with and the prompt already ends with.
    """

    grammar: str = ""
    grammar_start: str = ""
    thinking: ThinkingLimit | None = None

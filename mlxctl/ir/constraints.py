"""Output constraints, as requested and as the engine gets them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

ConstraintKind = Literal["json_object", "json_schema", "grammar", "regex", "choice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """The structured output that a visible answer must match.

    `value` is a JSON schema (also for json_object), the text of a Lark or GBNF grammar, a regular expression,
    or the choices. `param` is the request's field, for errors. Keywords of a schema that cannot be enforced
    raise an error if `is_strict`, and are left to the model otherwise.
    """

    kind: ConstraintKind
    value: Mapping[str, Any] | bool | str | tuple[str, ...]
    param: str
    is_strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingLimit:
    """The maximum length of thinking.

    After `max_tokens` tokens of it `closing_ids` are inserted, unless `closer_ids` came before. Thinking
    begins at once if `is_open`, or else after `opener_ids`, if they come first.
    """

    max_tokens: int
    is_open: bool
    opener_ids: tuple[int, ...]
    closer_ids: tuple[int, ...]
    closing_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """What constrains the next token by those before it.

    `grammar` is in llguidance's notation, compiled and checked, "" for none; `grammar_start` is text that it
    begins with and the prompt ends with. The model's stop tokens `eos_token_ids` are allowed where the
    grammar is complete; those that a request adds are not.
    """

    grammar: str = ""
    grammar_start: str = ""
    eos_token_ids: tuple[int, ...] = ()
    thinking: ThinkingLimit | None = None

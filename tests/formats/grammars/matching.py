"""Whether a compiled constraint accepts a text, byte by byte."""

import json
from typing import Any

from llguidance import LLMatcher, LLTokenizer

from mlxctl.formats.grammars import Definition, compile_constraint, compose
from mlxctl.ir import Constraint


def compiled(kind: Any, value: Any, **more: Any) -> Definition:
    return compile_constraint(Constraint(kind=kind, value=value, param="schema", **more))


def accepts(definition: Definition, value: Any) -> bool:
    """Whether the grammar accepts a value, or a text as it is."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    matcher = LLMatcher(LLTokenizer("byte"), compose("start: @output", {"output": definition}))
    assert not matcher.is_error(), matcher.get_error()
    tokens = list(text.encode())
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()

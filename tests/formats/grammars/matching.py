"""Whether a compiled constraint accepts a text, token by token."""

import json
from functools import cache
from typing import Any

from llguidance import LLMatcher, LLTokenizer

from mlxctl.formats.grammars import Definition, compile_constraint, compose
from mlxctl.ir import Constraint
from mlxctl.library.demo import MODEL_DIR


def compiled(kind: Any, value: Any, **more: Any) -> Definition:
    return compile_constraint(Constraint(kind=kind, value=value, param="schema", **more))


def accepts(definition: Definition, value: Any) -> bool:
    """Whether the grammar accepts a value, or a text as it is."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    matcher = LLMatcher(_tokenizer(), compose("start: @output", {"output": definition}))
    assert not matcher.is_error(), matcher.get_error()
    tokens = _tokenizer().tokenize_str(text)
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


@cache
def _tokenizer() -> LLTokenizer:
    return LLTokenizer((MODEL_DIR / "tokenizer.json").read_text(), eos_token=[0])

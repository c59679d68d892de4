"""Grammars of structured output and tool calls, in llguidance's notation.

Compiled and checked here, in preparation processes; matched token by token in the engine. Knows no model.
"""

from mlxctl.formats.grammars.call_arguments import call_arguments
from mlxctl.formats.grammars.compilation import MAX_GRAMMAR_BYTES, compile_constraint
from mlxctl.formats.grammars.composition import Definition, compose
from mlxctl.formats.grammars.literals import LarkLiterals
from mlxctl.formats.grammars.text_patterns import text_without

__all__ = [
    "MAX_GRAMMAR_BYTES",
    "Definition",
    "LarkLiterals",
    "call_arguments",
    "compile_constraint",
    "compose",
    "text_without",
]

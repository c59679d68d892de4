"""What an answer has to look like, in llguidance's notation: compiled and checked here, matched token by
token in the engine.
"""

from mlxctl.grammars.call_arguments import call_arguments
from mlxctl.grammars.compilation import MAX_GRAMMAR_BYTES, compile_constraint
from mlxctl.grammars.composition import Definition, compose
from mlxctl.grammars.literals import Spelling
from mlxctl.grammars.text_patterns import text_without

__all__ = [
    "MAX_GRAMMAR_BYTES",
    "Definition",
    "Spelling",
    "call_arguments",
    "compile_constraint",
    "compose",
    "text_without",
]

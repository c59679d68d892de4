"""What decides about a row's tokens by those before them: grammars, the thinking limit, repetition.

Knows no mlx.
"""

from mlxctl.engine.constraints.compiler import GrammarCompiler, needs_constraint
from mlxctl.engine.constraints.token_constraint import TokenConstraint

__all__ = ["GrammarCompiler", "TokenConstraint", "needs_constraint"]

"""Token constraints that depend on a row's earlier tokens. Knows no MLX.

Grammars of structured output, the thinking budget, the repetition penalty.
"""

from mlxctl.engine.constraints.compiler import GrammarCompiler, needs_constraint
from mlxctl.engine.constraints.token_constraint import TokenConstraint

__all__ = ["GrammarCompiler", "TokenConstraint", "needs_constraint"]

"""What decides about a row's tokens by those before them: grammars, the thinking limit, repetition. Knows no mlx."""

from mlxctl.engine.constraints.guide import Guide
from mlxctl.engine.constraints.workshop import GuideWorkshop, needs_guide

__all__ = ["Guide", "GuideWorkshop", "needs_guide"]

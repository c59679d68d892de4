"""Prefix cache inspection from the front: contents and explanations.

Event-loop thread; explanations are computed in preparation processes.
"""

from mlxctl.inference.cache.divergence import Divergence, MissReason
from mlxctl.inference.cache.explanation import Explanation
from mlxctl.inference.cache.inspector import CacheView

__all__ = ["CacheView", "Divergence", "Explanation", "MissReason"]

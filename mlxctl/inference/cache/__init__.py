"""Prefix cache inspection from the front: contents and explanations."""

from mlxctl.inference.cache.divergence import Divergence, MissReason
from mlxctl.inference.cache.explanation import Explanation
from mlxctl.inference.cache.inspector import CacheInspector

__all__ = ["CacheInspector", "Divergence", "Explanation", "MissReason"]

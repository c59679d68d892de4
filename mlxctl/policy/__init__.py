"""Authentication and cache namespaces. Knows no HTTP framework and no wire format."""

from mlxctl.policy.authentication import Caller, KeyCheck
from mlxctl.policy.cache_namespace import cache_namespace

__all__ = ["Caller", "KeyCheck", "cache_namespace"]

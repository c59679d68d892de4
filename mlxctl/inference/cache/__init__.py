"""Looking into the prefix cache from the front: what it holds, and why a prompt was or was not known."""

from mlxctl.inference.cache.divergence import Divergence, MissReason
from mlxctl.inference.cache.explanation import Explanation
from mlxctl.inference.cache.inspector import CacheInspector
from mlxctl.inference.cache.recent_prompts import SeenRequest, SeenRequests

__all__ = ["CacheInspector", "Divergence", "Explanation", "MissReason", "SeenRequest", "SeenRequests"]

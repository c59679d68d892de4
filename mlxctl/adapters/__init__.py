"""What each model family is like: how it is asked, and how its answer is read.

Never imports mlx or transformers.
"""

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.families import create_adapter
from mlxctl.adapters.prepared import PreparedInput, PromptTokens
from mlxctl.adapters.processor import StreamProcessor

__all__ = [
    "ModelAdapter",
    "PreparedInput",
    "PromptTokens",
    "StreamProcessor",
    "create_adapter",
]

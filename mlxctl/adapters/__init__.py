"""Model families: prompts, parsing of answers, media and token ids.

`ModelAdapter` runs in preparation processes, and in commands; `AnswerReader` on the front's event loop.
Never imports mlx or transformers.
"""

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.families import create_adapter
from mlxctl.adapters.prepared import PreparedInput, PromptTokens
from mlxctl.adapters.processor import StreamProcessor
from mlxctl.adapters.request_defaults import RequestDefaults

__all__ = [
    "ModelAdapter",
    "PreparedInput",
    "PromptTokens",
    "RequestDefaults",
    "StreamProcessor",
    "create_adapter",
]

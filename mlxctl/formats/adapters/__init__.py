"""Model families: prompts, parsing of answers, media and token ids.

`ModelAdapter` runs in preparation processes, and in commands; `AnswerReader` on the front's event loop.
Never imports mlx or transformers.
"""

from mlxctl.formats.adapters.adapter import ModelAdapter
from mlxctl.formats.adapters.families import create_adapter
from mlxctl.formats.adapters.parser_choice import described_parsers
from mlxctl.formats.adapters.prepared import PreparedInput, PromptTokens
from mlxctl.formats.adapters.processor import StreamProcessor
from mlxctl.formats.adapters.request_defaults import RequestDefaults

__all__ = [
    "ModelAdapter",
    "PreparedInput",
    "PromptTokens",
    "RequestDefaults",
    "StreamProcessor",
    "create_adapter",
    "described_parsers",
]

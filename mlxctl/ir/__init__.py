"""The language of the house: pure values that every room may speak. No wire names, no mlx, no storage ids."""

from mlxctl.ir.events import (
    Finished,
    FinishReason,
    PromptProgress,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    TokenLogprob,
    TokenScore,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
    TopLogprob,
    Usage,
)
from mlxctl.ir.messages import (
    AudioPart,
    ImagePart,
    Message,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    text_message,
)
from mlxctl.ir.models import ModelFacts
from mlxctl.ir.requests import (
    GenerationRequest,
    SamplingOptions,
    SamplingParams,
    ThinkingOptions,
    ToolChoice,
    ToolSpec,
)
from mlxctl.ir.results import Collector, TextResult, collect

__all__ = [
    "AudioPart", "Collector", "FinishReason", "Finished", "GenerationRequest", "ImagePart", "Message", "ModelFacts", "Part",
    "PromptProgress", "Role", "SamplingOptions", "SamplingParams", "StreamEvent", "TextDelta", "TextPart", "TextResult",
    "ThinkingDelta", "ThinkingOptions", "ThinkingPart", "TokenLogprob", "TokenScore", "ToolArgumentsDelta", "ToolCallEnded", "ToolCallPart",
    "ToolCallStarted", "ToolChoice", "ToolResultPart", "ToolSpec", "TopLogprob", "Usage", "collect", "text_message",
]  # fmt: skip

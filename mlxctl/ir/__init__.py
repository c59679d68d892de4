"""Intermediate representation: pure values shared by all packages.

Requests, messages, events, results, model facts. No wire names, no mlx, no storage ids, no I/O. Every package
may import it; it imports only msgspec and the standard library.
"""

from typing import TYPE_CHECKING

from mlxctl import on_demand

if TYPE_CHECKING:
    from mlxctl.ir.adapter_verdict import AdapterVerdict, DeliveryVerdict
    from mlxctl.ir.constraints import Constraint, ConstraintKind, Guidance, ThinkingLimit
    from mlxctl.ir.context_edits import AppliedEdit, ClearThinking, ClearToolUses, ContextEdit
    from mlxctl.ir.embeddings import (
        Activation,
        DenseLayer,
        EmbeddingRecipe,
        EmbeddingRequest,
        EmbeddingResult,
        EncoderKind,
        Pooling,
    )
    from mlxctl.ir.events import (
        Finished,
        FinishReason,
        GeneratedTokens,
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
    from mlxctl.ir.images import ProcessedImage, VisionKind, VisionRecipe
    from mlxctl.ir.kv_cache_size import KVFormat
    from mlxctl.ir.messages import (
        AudioPart,
        ImagePart,
        Message,
        Part,
        RemoteImagePart,
        Role,
        ShownPart,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolResultPart,
        text_message,
    )
    from mlxctl.ir.model_spec import (
        EmbeddingTask,
        ModelSpec,
        ModelTask,
        TextGenerationTask,
        TranscriptionTask,
    )
    from mlxctl.ir.models import (
        ModelCapabilities,
        ModelFacts,
        ModelState,
        ProbeVerdict,
        Purpose,
        ToolDelivery,
    )
    from mlxctl.ir.notations import BraceNotation, JsonNotation, Notation, PythonNotation, TagNotation
    from mlxctl.ir.requests import (
        CacheBreakpoint,
        CacheMode,
        CacheOptions,
        ContextOverflow,
        GenerationRequest,
        Repetition,
        SamplingOptions,
        SamplingParams,
        ThinkingOptions,
        ToneCurve,
        ToneCurveOptions,
        ToolChoice,
        ToolSpec,
    )
    from mlxctl.ir.results import Collector, TextResult, collect
    from mlxctl.ir.stored import StoredAgent, StoredItem, StoredResponse
    from mlxctl.ir.transcription import (
        SpeechSegment,
        SpeechTask,
        TranscriptionRecipe,
        TranscriptionRequest,
        TranscriptionResult,
    )

__all__ = [
    "Activation",
    "AdapterVerdict",
    "AppliedEdit",
    "AudioPart",
    "BraceNotation",
    "CacheBreakpoint",
    "CacheMode",
    "CacheOptions",
    "ClearThinking",
    "ClearToolUses",
    "Collector",
    "Constraint",
    "ConstraintKind",
    "ContextEdit",
    "ContextOverflow",
    "DeliveryVerdict",
    "DenseLayer",
    "EmbeddingRecipe",
    "EmbeddingRequest",
    "EmbeddingResult",
    "EmbeddingTask",
    "EncoderKind",
    "FinishReason",
    "Finished",
    "GeneratedTokens",
    "GenerationRequest",
    "Guidance",
    "ImagePart",
    "JsonNotation",
    "KVFormat",
    "Message",
    "ModelCapabilities",
    "ModelFacts",
    "ModelSpec",
    "ModelState",
    "ModelTask",
    "Notation",
    "Part",
    "Pooling",
    "ProbeVerdict",
    "ProcessedImage",
    "PromptProgress",
    "Purpose",
    "PythonNotation",
    "RemoteImagePart",
    "Repetition",
    "Role",
    "SamplingOptions",
    "SamplingParams",
    "ShownPart",
    "SpeechSegment",
    "SpeechTask",
    "StoredAgent",
    "StoredItem",
    "StoredResponse",
    "StreamEvent",
    "TagNotation",
    "TextDelta",
    "TextGenerationTask",
    "TextPart",
    "TextResult",
    "ThinkingDelta",
    "ThinkingLimit",
    "ThinkingOptions",
    "ThinkingPart",
    "TokenLogprob",
    "TokenScore",
    "ToneCurve",
    "ToneCurveOptions",
    "ToolArgumentsDelta",
    "ToolCallEnded",
    "ToolCallPart",
    "ToolCallStarted",
    "ToolChoice",
    "ToolDelivery",
    "ToolResultPart",
    "ToolSpec",
    "TopLogprob",
    "TranscriptionRecipe",
    "TranscriptionRequest",
    "TranscriptionResult",
    "TranscriptionTask",
    "Usage",
    "VisionKind",
    "VisionRecipe",
    "collect",
    "text_message",
]

# PERF: the first frame of a chat needs few of these modules; the first ones hold what most packages use.
__getattr__ = on_demand(
    __name__,
    __all__,
    (
        "messages",
        "events",
        "requests",
        "results",
        "constraints",
        "context_edits",
        "stored",
        "images",
        "kv_cache_size",
        "embeddings",
        "transcription",
        "models",
        "model_spec",
        "notations",
        "adapter_verdict",
    ),
)

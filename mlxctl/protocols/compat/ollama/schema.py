"""Bodies and answers of Ollama's routes.

Null means not set; other fields, and options that MLX does not have, are ignored.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.protocols.extension_fields import ExtensionFields
from mlxctl.protocols.openai.chat_answers import SampledTokenLogprob
from mlxctl.protocols.openai.chat_schema import ChatTool
from mlxctl.protocols.openai.text_inputs import MAX_TEXTS
from mlxctl.protocols.ranges import (
    AdditivePenalty,
    MessageLimit,
    MinP,
    Name,
    NumTopLogprobs,
    RepetitionPenalty,
    Seed,
    StopString,
    StopStrings,
    Temperature,
    ToolLimit,
    TopK,
    TopP,
)

DoneReason = Literal["stop", "length", "load"]
Images = Annotated[list[str], MessageLimit]


class OllamaOptions(Struct, kw_only=True):
    """Sampling options; a negative `num_predict` means no limit."""

    num_predict: int | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    typical_p: TopP | None = None
    repeat_penalty: RepetitionPenalty | None = None
    presence_penalty: AdditivePenalty | None = None
    frequency_penalty: AdditivePenalty | None = None
    seed: Seed | None = None
    stop: StopString | StopStrings | None = None


class OllamaFunction(Struct, kw_only=True):
    """Name and arguments of a call; `arguments` is an object."""

    name: Name
    arguments: dict[str, Any]
    index: int | UnsetType = UNSET


class OllamaCall(Struct, kw_only=True):
    """A tool call; those of clients may have no id."""

    id: str | UnsetType = UNSET
    function: OllamaFunction


class OllamaMessage(Struct, kw_only=True):
    """A message of the conversation.

    `images` are base64. A tool message answers the call `tool_call_id`, or the next one.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    images: Images | None = None
    tool_calls: Annotated[list[OllamaCall], ToolLimit] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class OllamaRequest(ExtensionFields, kw_only=True):
    """Fields that chat and generate share.

    `format` is "json" or a JSON schema. `think` turns thinking on or off, or is an effort. A stream is the
    default. `keep_alive` is how long the model stays loaded after the request.
    """

    model: Name
    stream: bool | None = None
    format: str | dict[str, Any] | None = None
    think: bool | str | None = None
    options: OllamaOptions | None = None
    keep_alive: str | float | None = None
    logprobs: bool | None = None
    top_logprobs: NumTopLogprobs | None = None


class OllamaChatRequest(OllamaRequest, kw_only=True):
    """Body of /api/chat; without messages the model is loaded."""

    messages: Annotated[list[OllamaMessage], MessageLimit] | None = None
    tools: Annotated[list[ChatTool], ToolLimit] | None = None


class OllamaGenerateRequest(OllamaRequest, kw_only=True):
    """Body of /api/generate; without a prompt the model is loaded.

    A `raw` prompt is continued as it is, without chat template. `context` (tokens of an earlier
    answer) is refused by name: no answer has it.
    """

    prompt: str | None = None
    system: str | None = None
    images: Images | None = None
    raw: bool | None = None
    suffix: str | None = None
    template: str | None = None
    context: list[int] | None = None


class OllamaAnswerMessage(Struct, kw_only=True):
    """An answer, or a piece of one."""

    role: Literal["assistant"]
    content: str
    thinking: str | UnsetType = UNSET
    tool_calls: list[OllamaCall] | UnsetType = UNSET


class OllamaCounts(Struct, kw_only=True):
    """The end of an answer: durations in nanoseconds, and token counts."""

    model: str
    created_at: str
    done: bool
    done_reason: DoneReason | UnsetType = UNSET
    total_duration: int | UnsetType = UNSET
    load_duration: int | UnsetType = UNSET
    prompt_eval_count: int | UnsetType = UNSET
    prompt_eval_duration: int | UnsetType = UNSET
    eval_count: int | UnsetType = UNSET
    eval_duration: int | UnsetType = UNSET
    logprobs: list[SampledTokenLogprob] | UnsetType = UNSET


class OllamaChatAnswer(OllamaCounts, kw_only=True):
    """An answer of /api/chat, or a line of its stream."""

    message: OllamaAnswerMessage


class OllamaGenerateAnswer(OllamaCounts, kw_only=True):
    """An answer of /api/generate, or a line of its stream."""

    response: str
    thinking: str | UnsetType = UNSET


class OllamaError(Struct):
    """An error, as body or as the last line of a stream."""

    error: str


class OllamaEmbedRequest(Struct, kw_only=True):
    """Body of a request to /api/embed.

    `truncate` (on by default) cuts texts that are too long.
    """

    model: Name
    input: str | Annotated[list[str], Meta(min_length=1, max_length=MAX_TEXTS)]
    truncate: bool | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    keep_alive: str | float | None = None


class OllamaEmbeddings(Struct, kw_only=True):
    """A vector for each text."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OllamaOldEmbedRequest(Struct, kw_only=True):
    """Body of /api/embeddings, the earlier route for one text."""

    model: Name
    prompt: str
    keep_alive: str | float | None = None


class OllamaOldEmbedding(Struct):
    """The vector of one text."""

    embedding: list[float]


class OllamaDetails(Struct, kw_only=True):
    """Kind and size of a model."""

    parent_model: str = ""
    format: str = "mlx"
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


class OllamaModel(Struct, kw_only=True):
    """A model that the server serves.

    `size` is the weights' bytes. The digest is one of its name only.
    """

    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: OllamaDetails


class OllamaModels(Struct):
    """All models that the server serves."""

    models: list[OllamaModel]


class OllamaLoadedModel(OllamaModel, kw_only=True):
    """A loaded model; `expires_at` is when it may be unloaded, ISO 8601."""

    expires_at: str
    size_vram: int
    context_length: int


class OllamaLoadedModels(Struct):
    """The models that are in memory."""

    models: list[OllamaLoadedModel]


class OllamaShowRequest(Struct, kw_only=True):
    """Body of /api/show; `name` is the earlier name of `model`."""

    model: Name | None = None
    name: Name | None = None


class OllamaPullRequest(OllamaShowRequest, kw_only=True):
    """Body of /api/pull."""

    stream: bool | None = None


class OllamaPullStatus(Struct):
    """The model is there."""

    status: Literal["success"]


class OllamaModelInfo(Struct, kw_only=True):
    """Details of a model; `model_info` has its context length."""

    modelfile: str = ""
    parameters: str = ""
    template: str
    details: OllamaDetails
    model_info: dict[str, Any]
    capabilities: list[Literal["completion", "tools", "vision", "thinking", "embedding"]]
    modified_at: str


class OllamaVersion(Struct):
    """The version of Ollama's API that is followed."""

    version: str

"""Body of `POST /v1/responses`.

OpenAI's documented fields, and those of other servers (top_k, min_p, repetition_penalty, seed,
enable_thinking, …). Null means not set; other fields are ignored. Items, tools and choices stay raw in the
body: their type decides how they are decoded, and many types exist only at OpenAI.
"""

from typing import Annotated, Any, Literal

from msgspec import Raw, Struct

from mlxctl.protocols.openai.chat_schema import AudioData, Effort
from mlxctl.protocols.openai.freeform import InputGrammar
from mlxctl.protocols.priority import ServiceTier
from mlxctl.protocols.ranges import MaxTokens, MessageLimit, Metadata, Name, NumTopLogprobs, ToolLimit
from mlxctl.protocols.sampling_fields import ThinkingBudget
from mlxctl.protocols.structured_output import StructuredOutputFields
from mlxctl.protocols.video_parts import VideoContent


class InputText(Struct, tag_field="type", tag="input_text"):
    """A text part of an input message."""

    text: str


class OutputText(InputText, tag_field="type", tag="output_text"):
    """Text of an earlier answer."""


class PlainText(InputText, tag_field="type", tag="text"):
    """Text, by its name in chat completions."""


class ResponsesRefusal(Struct, tag_field="type", tag="refusal"):
    """A refusal of another provider's model; ignored."""

    refusal: str | None = None


class InputImage(Struct, tag_field="type", tag="input_image"):
    """An image as a URL, with its data or to be fetched.

    An uploaded file is rejected by name.
    """

    image_url: str | None = None
    file_id: str | None = None


class InputAudio(Struct, tag_field="type", tag="input_audio"):
    """An audio part of an input message."""

    input_audio: AudioData


class InputFile(Struct, tag_field="type", tag="input_file"):
    """A PDF as a data URL; other URLs and files are refused."""

    file_data: str | None = None
    filename: str | None = None
    file_url: str | None = None
    file_id: str | None = None


Content = (
    InputText | OutputText | PlainText | ResponsesRefusal | InputImage | InputAudio | InputFile | VideoContent
)


class ResponsesMessage(Struct):
    """A message as an input item."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | Annotated[list[Content], MessageLimit]


class ResponsesFunctionCall(Struct):
    """A call of an earlier answer; `arguments` is JSON text.

    Name and namespace together name a tool in a namespace.
    """

    call_id: str
    name: str
    arguments: str
    namespace: str | None = None


class ResponsesCustomCall(Struct):
    """A call of a custom tool of an earlier answer."""

    call_id: str
    name: str
    input: str
    namespace: str | None = None


class ResponsesCallOutput(Struct):
    """The result of a tool call."""

    call_id: str
    output: str | list[InputText | OutputText | PlainText | InputImage | InputFile]


class ReasoningPart(Struct):
    """A piece of thinking."""

    text: str


class ResponsesReasoning(Struct):
    """Thinking of an earlier answer, verbatim or in `encrypted_content`."""

    summary: list[ReasoningPart] | None = None
    content: list[ReasoningPart] | None = None
    encrypted_content: str | None = None


class ResponsesCompaction(Struct):
    """The summary of an earlier conversation, made by `/v1/responses/compact`."""

    encrypted_content: str


class ItemReference(Struct):
    """The id of a stored item."""

    id: str


class TypeTag(Struct):
    """The fields that decide the type of an item or tool."""

    type: str | None = None
    role: Any = None


class ResponsesFunction(Struct):
    """A tool's definition; arguments of a `strict` one always fit its parameters."""

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ResponsesPlainInput(Struct, tag_field="type", tag="text"):
    """Input of a custom tool without a grammar."""


class ResponsesGrammarInput(InputGrammar, tag_field="type", tag="grammar"):
    """Text that fits a grammar."""


class ResponsesCustomTool(Struct):
    """Definition of a custom tool, which takes free text."""

    name: Name
    description: str | None = None
    format: ResponsesPlainInput | ResponsesGrammarInput | None = None


class AdditionalTools(Struct):
    """Tools offered within the input."""

    tools: Annotated[list[Raw], ToolLimit] | None = None


class ResponsesNamespace(Struct):
    """Tools under a common name."""

    name: Name
    tools: list[Raw]
    description: str | None = None


class ResponsesNamedTool(Struct, tag_field="type", tag="function"):
    """A reference to a tool by name."""

    name: str
    namespace: str | None = None


class ResponsesNamedCustomTool(ResponsesNamedTool, tag_field="type", tag="custom"):
    """A reference to a custom tool."""


class ResponsesAllowedTool(Struct):
    """A reference to a tool of any type; dropped types are ignored."""

    type: str | None = None
    name: str | None = None
    namespace: str | None = None


class ResponsesAllowedTools(Struct, tag_field="type", tag="allowed_tools"):
    """A subset of the tools, and whether one must be called."""

    tools: list[ResponsesAllowedTool]
    mode: Literal["auto", "required"] = "auto"


class ReasoningOptions(Struct):
    """Reasoning options; `generate_summary` is the older name of `summary`."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None


class ResponsesTextFormat(Struct, tag_field="type", tag="text"):
    """The answer is text without constraints."""


class ResponsesObjectFormat(Struct, tag_field="type", tag="json_object"):
    """The answer is one JSON object."""


class ResponsesSchemaFormat(Struct, tag_field="type", tag="json_schema"):
    """JSON that fits a schema.

    Without `strict`, parts that cannot be enforced are ignored.
    """

    schema: dict[str, Any] | None = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class TextOptions(Struct):
    """Output options; `verbosity` is not used."""

    format: ResponsesTextFormat | ResponsesObjectFormat | ResponsesSchemaFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


# Extra output. Most values concern OpenAI's own tools, which this server does not run.
Includable = Literal[
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
    "message.input_image.image_url",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "web_search_call.action.sources",
    "web_search_call.results",
]


class ResponsesStreamOptions(Struct):
    """Options of a stream; its events are never padded."""

    include_obfuscation: bool | None = None


class ResponsesUnusedFields(StructuredOutputFields, kw_only=True):
    """Base of bodies with OpenAI's fields that change nothing here.

    Their types are checked. Conversations are never compacted in between, as `context_management` allows.
    """

    stream_options: ResponsesStreamOptions | None = None
    context_management: list[dict[str, Any]] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    background_options: dict[str, Any] | None = None
    access_programs: dict[str, Any] | None = None
    safety_identifier: str | None = None
    user: str | None = None


class ResponsesRequest(ResponsesUnusedFields, kw_only=True):
    """Body of a response."""

    model: Name
    input: str | Annotated[list[Raw], MessageLimit] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    tools: Annotated[list[Raw], ToolLimit] | None = None
    tool_choice: (
        Literal["auto", "none", "required"]
        | ResponsesNamedTool
        | ResponsesNamedCustomTool
        | ResponsesAllowedTools
        | None
    ) = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: MaxTokens | None = None
    max_tool_calls: MaxTokens | None = None
    top_logprobs: NumTopLogprobs | None = None
    include: list[Includable] | None = None
    reasoning: ReasoningOptions | None = None
    enable_thinking: bool | None = None
    think: bool | Effort | None = None
    thinking_budget: ThinkingBudget | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    text: TextOptions | None = None
    truncation: Literal["auto", "disabled"] | None = None
    store: bool | None = None
    generate: bool | None = None
    stream: bool | None = None
    metadata: Metadata | None = None
    service_tier: ServiceTier | None = None
    background: bool | None = None
    conversation: Any = None
    prompt: Any = None
    moderation: Any = None

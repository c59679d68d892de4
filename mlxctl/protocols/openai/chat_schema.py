"""Body of `POST /v1/chat/completions`.

OpenAI's documented fields, and those of vLLM and other servers (sampling, structured output,
chat_template_kwargs, enable_thinking, think, thinking, reasoning, thinking_budget, reasoning_content). Null
means not set. Other fields are ignored, as clients expect.
"""

from typing import Annotated, Any, Literal

from msgspec import Struct

from mlxctl.protocols.openai.chat_answers import ChatCustomCall, ChatFunctionCall
from mlxctl.protocols.openai.completion_fields import CompletionFields
from mlxctl.protocols.openai.freeform import InputGrammar
from mlxctl.protocols.priority import ServiceTier
from mlxctl.protocols.ranges import (
    AnswerTokenLimit,
    MessageLimit,
    Name,
    NumTopLogprobs,
    ToolLimit,
)
from mlxctl.protocols.sampling_fields import ThinkingBudget
from mlxctl.protocols.structured_output import Source
from mlxctl.protocols.video_parts import ProcessorOptions, VideoContent

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class ChatTextPart(Struct, tag_field="type", tag="text"):
    """A text part of a message."""

    text: str


class ChatRefusalPart(Struct, tag_field="type", tag="refusal"):
    """A refusal of another provider's model; ignored."""

    refusal: str | None = None


class ChatImageUrl(Struct):
    """A URL of an image, with its data or to be fetched.

    `detail` is ignored.
    """

    url: str


class ChatImagePart(Struct, tag_field="type", tag="image_url"):
    """An image part of a message."""

    image_url: ChatImageUrl


class ChatFile(Struct):
    """A PDF as a data URL; an uploaded file is refused."""

    file_data: str | None = None
    filename: str | None = None
    file_id: str | None = None


class ChatFilePart(Struct, tag_field="type", tag="file"):
    """A document of a message."""

    file: ChatFile


class AudioData(Struct):
    """Audio of a message as base64."""

    data: str
    format: Literal["wav", "mp3", "flac", "ogg"]


class ChatAudioPart(Struct, tag_field="type", tag="input_audio"):
    """An audio part of a message."""

    input_audio: AudioData


class ChatAudioUrl(Struct):
    """A data URL of audio; others are refused."""

    url: str


class ChatAudioUrlPart(Struct, tag_field="type", tag="audio_url"):
    """An audio part of a message, as vLLM takes it."""

    audio_url: ChatAudioUrl


class ChatMessageToolCall(Struct, omit_defaults=True):
    """A call of an earlier answer.

    Of a function unless its type is `custom`.
    """

    id: str
    type: Literal["function", "custom"] | None = None
    function: ChatFunctionCall | None = None
    custom: ChatCustomCall | None = None


class ChatSystemMessage(Struct, tag_field="role", tag="system"):
    """A message with instructions of the operator."""

    content: str | Annotated[list[ChatTextPart], MessageLimit]
    name: str | None = None


class ChatDeveloperMessage(ChatSystemMessage, tag_field="role", tag="developer"):
    """Instructions, under their newer role."""


class ChatUserMessage(Struct, tag_field="role", tag="user"):
    """A message of the user."""

    content: (
        str
        | Annotated[
            list[
                ChatTextPart | ChatImagePart | ChatAudioPart | ChatAudioUrlPart | ChatFilePart | VideoContent
            ],
            MessageLimit,
        ]
    )
    name: str | None = None


class ChatAssistantMessage(Struct, tag_field="role", tag="assistant"):
    """An earlier answer; `reasoning` is vLLM's newer name of `reasoning_content`.

    The last message is continued with `prefix` (DeepSeek, Mistral) or `partial` (Qwen, Kimi).
    """

    content: str | Annotated[list[ChatTextPart | ChatRefusalPart], MessageLimit] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ChatMessageToolCall] | None = None
    function_call: Any = None
    name: str | None = None
    prefix: bool | None = None
    partial: bool | None = None


class ChatToolMessage(Struct, tag_field="role", tag="tool"):
    """The result of a tool call."""

    tool_call_id: str
    content: str | Annotated[list[ChatTextPart | ChatImagePart], MessageLimit]
    name: str | None = None


ChatMessage = (
    ChatSystemMessage | ChatDeveloperMessage | ChatUserMessage | ChatAssistantMessage | ChatToolMessage
)


class ChatFunction(Struct):
    """A tool's definition; arguments of a `strict` one always fit its parameters."""

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ChatPlainInput(Struct, tag_field="type", tag="text"):
    """Input of a custom tool without a grammar."""


class ChatGrammarInput(Struct, tag_field="type", tag="grammar"):
    """Text that fits a grammar."""

    grammar: InputGrammar


class ChatCustomTool(Struct):
    """Definition of a custom tool, which takes free text."""

    name: Name
    description: str | None = None
    format: ChatPlainInput | ChatGrammarInput | None = None


class ChatTool(Struct):
    """An offered tool; other types than function and custom are dropped."""

    type: str | None = None
    function: ChatFunction | None = None
    custom: ChatCustomTool | None = None


class ChatToolName(Struct):
    """The name of a tool."""

    name: str


class ChatNamedTool(Struct, tag_field="type", tag="function"):
    """A reference to a tool by name."""

    function: ChatToolName


class ChatNamedCustomTool(Struct, tag_field="type", tag="custom"):
    """A reference to a custom tool."""

    custom: ChatToolName


class ChatAllowedTools(Struct):
    """A subset of the tools, and whether one must be called."""

    tools: list[ChatNamedTool | ChatNamedCustomTool]
    mode: Literal["auto", "required"] = "auto"


class ChatAllowedToolsChoice(Struct, tag_field="type", tag="allowed_tools"):
    """Only these tools may be called."""

    allowed_tools: ChatAllowedTools


class ChatTextFormat(Struct, tag_field="type", tag="text"):
    """The answer is text without constraints."""


class ChatObjectFormat(Struct, tag_field="type", tag="json_object"):
    """A JSON object; some servers accept its schema here.

    Hugging Face's client sends it as `value`.
    """

    schema: dict[str, Any] | None = None
    value: dict[str, Any] | None = None


class ChatSchema(Struct):
    """A schema; without `strict`, parts that cannot be enforced are ignored.

    The name is not used.
    """

    name: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class ChatSchemaFormat(Struct, tag_field="type", tag="json_schema"):
    """JSON that fits a schema."""

    json_schema: ChatSchema


class ChatGrammarFormat(Struct, tag_field="type", tag="grammar"):
    """Text that fits a grammar, as some other servers accept it."""

    grammar: Source


ResponseFormat = ChatTextFormat | ChatObjectFormat | ChatSchemaFormat | ChatGrammarFormat


class ThinkingSwitch(Struct, kw_only=True):
    """Anthropic's, DeepSeek's and GLM's switch; `adaptive` leaves it to the model."""

    type: Literal["enabled", "disabled", "adaptive", "auto"]
    budget_tokens: ThinkingBudget | None = None


class ReasoningSwitch(Struct, kw_only=True):
    """OpenRouter's switch, and the effort of OpenAI's responses; `exclude` hides the thinking."""

    effort: Effort | None = None
    enabled: bool | None = None
    exclude: bool | None = None
    max_tokens: ThinkingBudget | None = None


class ChatRequest(CompletionFields, kw_only=True):
    """Body of a chat completion; `verbosity` is not used.

    As in vLLM, `include_reasoning` false hides the thinking, `prompt_logprobs` adds the log-probabilities
    of the prompt, `return_tokens_as_token_ids` writes tokens of `logprobs` as `token_id:5`,
    `return_token_ids` adds the ids of prompt and answer, `mm_processor_kwargs` chooses the frames of
    videos, `stop_token_ids` end the answer, and `echo` puts the text of the last message before the answer
    that continues it.

    As in llama.cpp, `json_schema` constrains the answer, `timings_per_token` adds `timings`, and
    `return_progress` sends the progress of the prefill in chunks.
    """

    model: Name
    messages: Annotated[list[ChatMessage], MessageLimit]
    tools: Annotated[list[ChatTool], ToolLimit] | None = None
    tool_choice: (
        Literal["auto", "none", "required"]
        | ChatNamedTool
        | ChatNamedCustomTool
        | ChatAllowedToolsChoice
        | None
    ) = None
    parallel_tool_calls: bool | None = None
    max_completion_tokens: AnswerTokenLimit | None = None
    max_tokens: AnswerTokenLimit | None = None
    logprobs: bool | None = None
    top_logprobs: NumTopLogprobs | None = None
    timings_per_token: bool | None = None
    return_progress: bool | None = None
    reasoning_effort: Effort | None = None
    enable_thinking: bool | None = None
    think: bool | Effort | None = None
    thinking: ThinkingSwitch | bool | None = None
    reasoning: ReasoningSwitch | None = None
    include_reasoning: bool | None = None
    thinking_budget: ThinkingBudget | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
    service_tier: ServiceTier | None = None
    response_format: ResponseFormat | None = None
    json_schema: dict[str, Any] | None = None
    mm_processor_kwargs: ProcessorOptions | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    functions: list[Any] | None = None
    function_call: Any = None
    web_search_options: Any = None
    moderation: Any = None

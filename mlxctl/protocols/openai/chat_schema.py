"""The body of `POST /v1/chat/completions` as OpenAI documents it, plus what its other servers' users send
(how to sample, what form the answer has, chat_template_kwargs, enable_thinking, thinking_budget,
reasoning_content). One type per concept; null means unsaid everywhere.

Fields that are not here are ignored, as the protocol's clients expect (metadata, store, user, service_tier,
prediction, …).
"""

from typing import Annotated, Any, Literal

from msgspec import Struct

from mlxctl.ir import CacheMode
from mlxctl.protocols.cache_options import CacheSalt, SessionId, TtlSeconds
from mlxctl.protocols.openai.freeform import InputGrammar
from mlxctl.protocols.ranges import (
    FewMessages,
    FewTools,
    MaxTokens,
    Name,
    NumChoices,
    NumTopLogprobs,
    StopString,
    StopStrings,
)
from mlxctl.protocols.sampling_fields import ThinkingBudget
from mlxctl.protocols.structured_output import FormFields, Source

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Text(Struct, tag_field="type", tag="text"):
    """A piece of text."""

    text: str


class Refusal(Struct, tag_field="type", tag="refusal"):
    """A replayed refusal of another server's model; it says nothing to ours."""

    refusal: str | None = None


class ImageUrl(Struct):
    """Where the image is; `detail` is ignored."""

    url: str


class Image(Struct, tag_field="type", tag="image_url"):
    """An image."""

    image_url: ImageUrl


class AudioData(Struct):
    """A sound as base64."""

    data: str
    format: Literal["wav", "mp3", "flac", "ogg"]


class Audio(Struct, tag_field="type", tag="input_audio"):
    """A sound."""

    input_audio: AudioData


class FunctionCall(Struct):
    """What is called; `arguments` is JSON text."""

    name: str
    arguments: str


class CustomCall(Struct):
    """What is called, and the text that it takes."""

    name: str
    input: str


class ToolCall(Struct, omit_defaults=True):
    """A replayed call, of a function unless its type says `custom`."""

    id: str
    type: Literal["function", "custom"] | None = None
    function: FunctionCall | None = None
    custom: CustomCall | None = None


class SystemMessage(Struct, tag_field="role", tag="system"):
    """Instructions."""

    content: str | Annotated[list[Text], FewMessages]
    name: str | None = None


class DeveloperMessage(SystemMessage, tag_field="role", tag="developer"):
    """Instructions, by their newer name."""


class UserMessage(Struct, tag_field="role", tag="user"):
    """A question."""

    content: str | Annotated[list[Text | Image | Audio], FewMessages]
    name: str | None = None


class AssistantMessage(Struct, tag_field="role", tag="assistant"):
    """An answer that is replayed; `reasoning` is the newer name of `reasoning_content` on some servers."""

    content: str | Annotated[list[Text | Refusal], FewMessages] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Any = None
    name: str | None = None


class ToolMessage(Struct, tag_field="role", tag="tool"):
    """What a tool gave back."""

    tool_call_id: str
    content: str | Annotated[list[Text | Image], FewMessages]
    name: str | None = None


ChatMessage = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


class Function(Struct):
    """A tool's definition; arguments of a `strict` one always fit its parameters."""

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class PlainInput(Struct, tag_field="type", tag="text"):
    """Any text."""


class GrammarInput(Struct, tag_field="type", tag="grammar"):
    """A text that fits a grammar."""

    grammar: InputGrammar


class Custom(Struct):
    """The definition of a tool that takes any text."""

    name: Name
    description: str | None = None
    format: PlainInput | GrammarInput | None = None


class Tool(Struct):
    """A tool on offer; types other than these two belong to another server and are dropped."""

    type: str | None = None
    function: Function | None = None
    custom: Custom | None = None


class NamedFunction(Struct):
    """The name of a tool."""

    name: str


class NamedTool(Struct, tag_field="type", tag="function"):
    """A reference to a tool by name."""

    function: NamedFunction


class NamedCustomTool(Struct, tag_field="type", tag="custom"):
    """A reference to a tool that takes any text."""

    custom: NamedFunction


class AllowedTools(Struct):
    """A part of the tools, and whether one must be called."""

    tools: list[NamedTool | NamedCustomTool]
    mode: Literal["auto", "required"] = "auto"


class AllowedToolsChoice(Struct, tag_field="type", tag="allowed_tools"):
    """Only these tools may be called."""

    allowed_tools: AllowedTools


class StreamOptions(Struct):
    """How to stream."""

    include_usage: bool | None = None


class PlainFormat(Struct, tag_field="type", tag="text"):
    """Any text."""


class ObjectFormat(Struct, tag_field="type", tag="json_object"):
    """A JSON object; other servers' users may give its schema."""

    schema: dict[str, Any] | None = None


class NamedSchema(Struct):
    """A schema; without `strict`, what of it cannot be enforced is left to the model.

    The name says nothing to us.
    """

    name: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class SchemaFormat(Struct, tag_field="type", tag="json_schema"):
    """JSON that fits a schema."""

    json_schema: NamedSchema


class GrammarFormat(Struct, tag_field="type", tag="grammar"):
    """A text that fits a grammar, as some other servers have it."""

    grammar: Source


ResponseFormat = PlainFormat | ObjectFormat | SchemaFormat | GrammarFormat


class ChatRequest(FormFields, kw_only=True):
    """The whole body."""

    model: Name
    messages: Annotated[list[ChatMessage], FewMessages]
    tools: Annotated[list[Tool], FewTools] | None = None
    tool_choice: (
        Literal["auto", "none", "required"] | NamedTool | NamedCustomTool | AllowedToolsChoice | None
    ) = None
    parallel_tool_calls: bool | None = None
    max_completion_tokens: MaxTokens | None = None
    max_tokens: MaxTokens | None = None
    stop: StopString | StopStrings | None = None
    ignore_eos: bool | None = None
    logprobs: bool | None = None
    top_logprobs: NumTopLogprobs | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    reasoning_effort: Effort | None = None
    enable_thinking: bool | None = None
    thinking_budget: ThinkingBudget | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    n: NumChoices | None = None
    session_id: SessionId | None = None
    cache_mode: CacheMode | None = None
    cache_salt: CacheSalt | None = None
    ttl: TtlSeconds | None = None
    response_format: ResponseFormat | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    functions: list[Any] | None = None
    function_call: Any = None
    web_search_options: Any = None

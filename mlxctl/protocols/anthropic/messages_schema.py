"""Bodies of `POST /v1/messages` and `/v1/messages/count_tokens`, as Anthropic documents them.

Null means not set. Of other servers' fields, those that switch thinking are accepted. Other fields (metadata,
betas, …) are ignored, as clients expect.
"""

from typing import Annotated, Any, Literal

from msgspec import Raw, Struct

from mlxctl.ir import ContextOverflow
from mlxctl.protocols.adapter_fields import AdapterFields
from mlxctl.protocols.anthropic.context_management import ContextManagement
from mlxctl.protocols.cache_options import CacheControl, CacheSalt
from mlxctl.protocols.ranges import (
    MaxTokens,
    MaxTokensOrZero,
    MessageLimit,
    Name,
    StopStrings,
    Temperature,
    ToolLimit,
    TopK,
    TopP,
)


class AnthropicText(Struct, tag_field="type", tag="text"):
    """A text block of a request."""

    text: str
    cache_control: CacheControl | None = None


class Base64Source(Struct, tag_field="type", tag="base64"):
    """An image in the request itself."""

    data: str
    media_type: str


class UrlSource(Struct, tag_field="type", tag="url"):
    """The address of an image; refused by name."""

    url: str


class FileSource(Struct, tag_field="type", tag="file"):
    """An uploaded image; refused by name."""

    file_id: str


class AnthropicImage(Struct, tag_field="type", tag="image"):
    """An image block of a request."""

    source: Base64Source | UrlSource | FileSource
    cache_control: CacheControl | None = None


class PlainTextSource(Struct, tag_field="type", tag="text"):
    """The text of a document."""

    data: str
    media_type: str | None = None


class ContentSource(Struct, tag_field="type", tag="content"):
    """A document in blocks."""

    content: str | Annotated[list[AnthropicText | AnthropicImage], MessageLimit]


class AnthropicDocument(Struct, tag_field="type", tag="document"):
    """A document: text or blocks.

    A PDF and a remote file cannot be read.
    """

    source: PlainTextSource | ContentSource | Base64Source | UrlSource | FileSource
    title: str | None = None
    context: str | None = None
    cache_control: CacheControl | None = None


class SearchResult(Struct, tag_field="type", tag="search_result"):
    """A passage that a search found."""

    content: Annotated[list[AnthropicText], MessageLimit]
    source: str
    title: str
    cache_control: CacheControl | None = None


class AnthropicThinking(Struct, tag_field="type", tag="thinking"):
    """Thinking of an earlier answer."""

    thinking: str
    signature: str | None = None


class RedactedThinking(Struct, tag_field="type", tag="redacted_thinking"):
    """Encrypted thinking of another provider's model; ignored."""

    data: str | None = None


class AnthropicToolUse(Struct, tag_field="type", tag="tool_use"):
    """A call of an earlier answer.

    `input` stays the JSON text that the client sent.
    """

    id: str
    name: str
    input: Raw
    cache_control: CacheControl | None = None


class ServerToolUse(AnthropicToolUse, tag_field="type", tag="server_tool_use"):
    """A call that Anthropic ran within an earlier answer."""


class McpToolUse(AnthropicToolUse, tag_field="type", tag="mcp_tool_use"):
    """A call of an MCP server, which Anthropic ran."""


class ServerToolResult(Struct, tag_field="type", tag="web_search_tool_result"):
    """The result of such a call."""

    tool_use_id: str
    content: Raw
    is_error: bool | None = None
    cache_control: CacheControl | None = None


class WebFetchResult(ServerToolResult, tag_field="type", tag="web_fetch_tool_result"):
    """Result of fetching a web page."""


class CodeExecutionResult(ServerToolResult, tag_field="type", tag="code_execution_tool_result"):
    """The output of a program."""


class BashExecutionResult(ServerToolResult, tag_field="type", tag="bash_code_execution_tool_result"):
    """The output of a command."""


class EditorExecutionResult(ServerToolResult, tag_field="type", tag="text_editor_code_execution_tool_result"):
    """The result of an edit."""


class ToolSearchResult(ServerToolResult, tag_field="type", tag="tool_search_tool_result"):
    """Tools that a search found."""


class McpToolResult(ServerToolResult, tag_field="type", tag="mcp_tool_result"):
    """The result of an MCP server's tool."""


class AdvisorResult(ServerToolResult, tag_field="type", tag="advisor_tool_result"):
    """The advice of another model."""


class AnthropicCompaction(Struct, tag_field="type", tag="compaction"):
    """The summary of the messages before it; null for a failed one."""

    content: str | None = None
    cache_control: CacheControl | None = None


class McpToolListing(Struct, tag_field="type", tag="mcp_tool_listing"):
    """Tools that an MCP server listed for Anthropic; ignored."""


class FallbackMark(Struct, tag_field="type", tag="fallback"):
    """The place where another model continued an answer; ignored."""


class ToolReference(Struct, tag_field="type", tag="tool_reference"):
    """The name of a deferred tool, whose definition is inserted here."""

    tool_name: str


class AnthropicToolResult(Struct, tag_field="type", tag="tool_result"):
    """The result of a tool call."""

    tool_use_id: str
    content: (
        str
        | Annotated[
            list[AnthropicText | AnthropicImage | AnthropicDocument | SearchResult | ToolReference],
            MessageLimit,
        ]
        | None
    ) = None
    is_error: bool | None = None
    cache_control: CacheControl | None = None


class AnthropicSystemMessage(Struct, tag_field="role", tag="system"):
    """A system message within the conversation."""

    content: str | Annotated[list[AnthropicText], MessageLimit]


class AnthropicUserMessage(Struct, tag_field="role", tag="user"):
    """A user message, tool results, or both."""

    content: (
        str
        | Annotated[
            list[AnthropicText | AnthropicImage | AnthropicDocument | SearchResult | AnthropicToolResult],
            MessageLimit,
        ]
    )


class AnthropicAssistantMessage(Struct, tag_field="role", tag="assistant"):
    """An earlier answer of the model."""

    content: (
        str
        | Annotated[
            list[
                AnthropicText
                | AnthropicThinking
                | RedactedThinking
                | AnthropicToolUse
                | ServerToolUse
                | McpToolUse
                | ServerToolResult
                | WebFetchResult
                | CodeExecutionResult
                | BashExecutionResult
                | EditorExecutionResult
                | ToolSearchResult
                | McpToolResult
                | AdvisorResult
                | AnthropicCompaction
                | McpToolListing
                | FallbackMark
            ],
            MessageLimit,
        ]
    )


ConversationMessage = AnthropicSystemMessage | AnthropicUserMessage | AnthropicAssistantMessage


class AnthropicTool(Struct):
    """A tool offered to the model.

    The input of a `strict` one always fits its schema. A `type` other than custom names a tool with a
    published schema, or one that Anthropic runs; those are dropped.
    """

    name: Name | None = None
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    defer_loading: bool | None = None
    strict: bool | None = None
    cache_control: CacheControl | None = None
    display_width_px: int | None = None
    display_height_px: int | None = None
    max_characters: int | None = None


class AutoChoice(Struct, tag_field="type", tag="auto"):
    """The model decides whether to call a tool."""

    disable_parallel_tool_use: bool | None = None


class AnyChoice(AutoChoice, tag_field="type", tag="any"):
    """Some tool must be called."""


class ToolNameChoice(AutoChoice, tag_field="type", tag="tool", kw_only=True):
    """This tool must be called."""

    name: str


class NoneChoice(Struct, tag_field="type", tag="none"):
    """No tool may be called."""


class ThinkingConfig(Struct):
    """Thinking options: `adaptive` leaves it to the model, `between_tools` means off."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: MaxTokens | None = None
    display: Literal["summarized", "omitted", "updates"] | None = None


class AnthropicSchemaFormat(Struct, tag_field="type", tag="json_schema"):
    """JSON that fits a schema."""

    schema: dict[str, Any]


class OutputConfig(Struct):
    """Effort and output format."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: AnthropicSchemaFormat | None = None


class CreateThread(Struct, tag_field="type", tag="create"):
    """Stores the conversation under the id of its answer."""


class ContinueThread(Struct, tag_field="type", tag="continue"):
    """Continues the stored conversation that ends with an answer."""

    previous_message_id: Name


class CountTokensRequest(AdapterFields, kw_only=True):
    """Body of `count_tokens`: the fields that decide the prompt.

    `container`, `mcp_servers` and `compaction` concern state and services at Anthropic; they are refused by
    name.
    """

    model: Name
    messages: Annotated[list[ConversationMessage], MessageLimit]
    system: str | Annotated[list[AnthropicText], MessageLimit] | None = None
    tools: Annotated[list[AnthropicTool], ToolLimit] | None = None
    tool_choice: AutoChoice | AnyChoice | ToolNameChoice | NoneChoice | None = None
    thinking: ThinkingConfig | None = None
    enable_thinking: bool | None = None
    think: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    output_config: OutputConfig | None = None
    output_format: AnthropicSchemaFormat | None = None
    cache_control: CacheControl | None = None
    cache_salt: CacheSalt | None = None
    context_management: ContextManagement | None = None
    thread: CreateThread | ContinueThread | None = None
    container: Any = None
    mcp_servers: list[Any] | None = None
    compaction: Any = None


class MessagesRequest(CountTokensRequest, kw_only=True):
    """Body of a Messages request.

    With `max_tokens` 0 the prompt is only prefilled into the cache. `n` is not a field of this protocol;
    other values than 1 are refused by name.
    """

    max_tokens: MaxTokensOrZero
    stop_sequences: StopStrings | None = None
    temperature: Temperature | None = None
    speculation: bool | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    stream: bool | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    context_overflow: ContextOverflow | None = None
    n: Any = None

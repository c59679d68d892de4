"""Bodies of `POST /v1/messages` and `/v1/messages/count_tokens`, as Anthropic documents them.

Null means not set. Of other servers' fields, those that switch thinking are accepted. Other fields (metadata,
betas, …) are ignored, as clients expect.
"""

from typing import Annotated, Any, Literal

from msgspec import Struct

from mlxctl.protocols.anthropic import content_blocks as blocks
from mlxctl.protocols.anthropic.context_management import ContextManagement
from mlxctl.protocols.extension_fields import ExtensionFields
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


class AnthropicSystemMessage(Struct, tag_field="role", tag="system"):
    """A system message within the conversation."""

    content: str | Annotated[list[blocks.AnthropicText], MessageLimit]


class AnthropicUserMessage(Struct, tag_field="role", tag="user"):
    """A user message, tool results, or both."""

    content: (
        str
        | Annotated[
            list[
                blocks.AnthropicText
                | blocks.AnthropicImage
                | blocks.AnthropicVideo
                | blocks.AnthropicDocument
                | blocks.SearchResult
                | blocks.AnthropicToolResult
            ],
            MessageLimit,
        ]
    )


class AnthropicAssistantMessage(Struct, tag_field="role", tag="assistant"):
    """An earlier answer of the model."""

    content: (
        str
        | Annotated[
            list[
                blocks.AnthropicText
                | blocks.AnthropicThinking
                | blocks.RedactedThinking
                | blocks.AnthropicToolUse
                | blocks.ServerToolUse
                | blocks.McpToolUse
                | blocks.ServerToolResult
                | blocks.WebFetchResult
                | blocks.CodeExecutionResult
                | blocks.BashExecutionResult
                | blocks.EditorExecutionResult
                | blocks.ToolSearchResult
                | blocks.McpToolResult
                | blocks.AdvisorResult
                | blocks.AnthropicCompaction
                | blocks.McpToolListing
                | blocks.FallbackMark
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
    cache_control: blocks.CacheControl | None = None
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


class CountTokensRequest(ExtensionFields, kw_only=True):
    """Body of `count_tokens`: the fields that decide the prompt.

    Those that only concern the answer or the cache are checked and change nothing.

    `container`, `mcp_servers` and `compaction` concern state and services at Anthropic; they are refused by
    name.
    """

    model: Name
    messages: Annotated[list[ConversationMessage], MessageLimit]
    system: str | Annotated[list[blocks.AnthropicText], MessageLimit] | None = None
    tools: Annotated[list[AnthropicTool], ToolLimit] | None = None
    tool_choice: AutoChoice | AnyChoice | ToolNameChoice | NoneChoice | None = None
    thinking: ThinkingConfig | None = None
    enable_thinking: bool | None = None
    think: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    output_config: OutputConfig | None = None
    output_format: AnthropicSchemaFormat | None = None
    cache_control: blocks.CacheControl | None = None
    context_management: ContextManagement | None = None
    thread: CreateThread | ContinueThread | None = None
    container: Any = None
    mcp_servers: list[Any] | None = None
    compaction: Any = None


class MessageMetadata(Struct):
    """The user that a request is for; without effect."""

    user_id: str | None = None


class MessagesRequest(CountTokensRequest, kw_only=True):
    """Body of a Messages request.

    With `max_tokens` 0 the prompt is only prefilled into the cache. `n` is not a field of this protocol;
    other values than 1 are refused by name.
    """

    max_tokens: MaxTokensOrZero
    stop_sequences: StopStrings | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    stream: bool | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    metadata: MessageMetadata | None = None
    inference_geo: str | None = None
    speed: str | None = None
    diagnostics: dict[str, Any] | None = None
    n: Any = None

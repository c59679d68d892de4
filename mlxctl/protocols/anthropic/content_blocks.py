"""Content blocks of Anthropic's messages, as requests have them.

Null means not set; other fields are ignored.
"""

from typing import Annotated, Literal

from msgspec import Raw, Struct

from mlxctl.protocols.ranges import MessageLimit
from mlxctl.protocols.video_parts import Frames, VideoOptions


class CacheControl(Struct):
    """A cache breakpoint.

    `ttl` is the time to live of the prompt up to its position, the last one also of the rest. One without
    `ttl` changes nothing.
    """

    type: Literal["ephemeral"] = "ephemeral"
    ttl: Literal["5m", "1h"] | None = None


class AnthropicText(Struct, tag_field="type", tag="text"):
    """A text block of a request."""

    text: str
    cache_control: CacheControl | None = None


class Base64Source(Struct, tag_field="type", tag="base64"):
    """An image, a clip or a PDF in the request itself."""

    data: str
    media_type: str


class UrlSource(Struct, tag_field="type", tag="url"):
    """The URL of an image or clip; refused for a document."""

    url: str


class FileSource(Struct, tag_field="type", tag="file"):
    """An uploaded image; refused by name."""

    file_id: str


class AnthropicImage(Struct, tag_field="type", tag="image"):
    """An image block of a request."""

    source: Base64Source | UrlSource | FileSource
    cache_control: CacheControl | None = None


class AnthropicVideo(VideoOptions, tag_field="type", tag="video"):
    """A video block of a request, or its frames.

    Other servers take such blocks.
    """

    source: Base64Source | UrlSource | FileSource | None = None
    video: str | Frames | None = None
    cache_control: CacheControl | None = None


class PlainTextSource(Struct, tag_field="type", tag="text"):
    """The text of a document."""

    data: str
    media_type: str | None = None


class ContentSource(Struct, tag_field="type", tag="content"):
    """A document in blocks."""

    content: str | Annotated[list[AnthropicText | AnthropicImage], MessageLimit]


class AnthropicDocument(Struct, tag_field="type", tag="document"):
    """A document: text, blocks, or a PDF in base64.

    A remote file is refused by name.
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

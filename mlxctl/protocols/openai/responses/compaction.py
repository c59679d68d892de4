"""`/v1/responses/compact`: the model summarizes a conversation.

The answer has the user's messages and one compaction item, which carries the summary. A client sends these
items as the input of its next request.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mlxctl.ir import GenerationRequest, StoredItem, TextResult, ThinkingOptions, ToolChoice, text_message
from mlxctl.ir.errors import InvalidRequest, SequenceFailed
from mlxctl.protocols.encoder import Reference, StoredContext
from mlxctl.protocols.openai.responses.answers import ResponseUsage
from mlxctl.protocols.openai.responses.encoder import (
    ResponseEncoder,
    ResponseShape,
    parse_response,
    parse_response_with,
)
from mlxctl.protocols.openai.responses.resource import response_usage
from mlxctl.protocols.thinking_signature import sign

MAX_SUMMARY_TOKENS = 4096

_INSTRUCTION = (
    "Summarize our conversation so far, so that you can continue it from the summary alone. Keep the task, "
    "decisions, names, numbers, file paths, results of tools, and what is left to do. Write only the summary."
)


class CompactedResponse(Struct, kw_only=True):
    """The user's messages and a summary of the conversation."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: list[dict[str, Any]]
    usage: ResponseUsage


class TokenCountOfResponse(Struct, kw_only=True):
    """The number of prompt tokens of a response."""

    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionShape(ResponseShape):
    """The shape of a compaction; `kept` are the user's messages."""

    kept: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(cls, shape: ResponseShape, kept: Iterable[dict[str, Any]] = ()) -> "CompactionShape":
        """Return the shape of a response's compaction."""
        return cls(
            model=shape.model,
            dropped_tools=shape.dropped_tools,
            response_id=shape.response_id,
            asked=shape.asked,
            style=shape.style,
            sampling=shape.sampling,
            kept=tuple(kept),
        )


def parse_compaction(body: bytes) -> tuple[GenerationRequest | Reference, CompactionShape]:
    """Parse a body, or return its references to stored data. Raises InvalidRequest."""
    parsed, shape = parse_response(body, needs_input=False)
    if isinstance(parsed, Reference):
        return replace(parsed, stream=False), CompactionShape.of(shape)
    return _summary(parsed, shape, ())


def parse_compaction_with(body: bytes, stored: StoredContext) -> tuple[GenerationRequest, CompactionShape]:
    """Parse a body with its stored context. Raises InvalidRequest."""
    request, shape = parse_response_with(body, stored, needs_input=False)
    return _summary(request, shape, stored.conversation or ())


def _summary(
    request: GenerationRequest, shape: ResponseShape, earlier: Sequence[StoredItem]
) -> tuple[GenerationRequest, CompactionShape]:
    """Return the request for a summary. Raises InvalidRequest."""
    if shape.asked.generate is False:
        message = "generate must be true or left out; a compaction generates a summary"
        raise InvalidRequest(message, param="generate", code="unsupported_parameter")
    items = [msgspec.json.decode(item.body) for item in (*earlier, *shape.own_items)]
    kept = (item for item in items if item.get("type") == "message" and item.get("role") == "user")
    summary = replace(
        request,
        messages=(*request.messages, text_message("user", _INSTRUCTION)),
        tool_choice=ToolChoice(mode="none"),
        constraint=None,
        thinking=ThinkingOptions(enabled=False),
        max_tokens=MAX_SUMMARY_TOKENS,
        stream=False,
    )
    return summary, CompactionShape.of(shape, kept)


class CompactionEncoder(ResponseEncoder):
    """Writes one compaction; it is neither streamed nor stored."""

    def __init__(self, shape: CompactionShape) -> None:
        super().__init__(shape)
        self._kept = shape.kept

    def whole(self, *results: TextResult) -> bytes:
        """Return the compacted conversation."""
        (result,) = results
        if not result.text.strip():
            raise SequenceFailed("the model wrote no summary; send the whole conversation")
        response_id = self.shape.response_id
        compaction = {
            "id": f"cmp_{response_id.removeprefix('resp_')}",
            "type": "compaction",
            "encrypted_content": sign(result.text.strip(), carry=True),
        }
        answer = CompactedResponse(
            id=response_id,
            created_at=self._created,
            output=[*self._kept, compaction],
            usage=response_usage(result.usage),
        )
        return msgspec.json.encode(answer)

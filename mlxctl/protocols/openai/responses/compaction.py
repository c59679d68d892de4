"""Formatter of `/v1/responses/compact`: the model summarizes a conversation.

The answer has the user's messages and one compaction item, which carries the summary. A client sends these
items as the input of its next request.
"""

from dataclasses import replace
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mlxctl.ir import GenerationRequest, TextResult, ThinkingOptions, ToolChoice, text_message
from mlxctl.ir.errors import InvalidRequest, SequenceFailed
from mlxctl.protocols.openai.responses.answers import ResponseUsage
from mlxctl.protocols.openai.responses.formatter import OpenAIResponsesFormatter
from mlxctl.protocols.openai.responses.parsing import StoredContext
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


class CompactionFormatter(OpenAIResponsesFormatter):
    """Formatter of one compaction; it is neither streamed nor stored."""

    needs_input = False

    def translate(self, context: StoredContext) -> GenerationRequest:
        """Return the request for a summary. Raises InvalidRequest."""
        if self._request.generate is False:
            message = "generate must be true or left out; a compaction generates a summary"
            raise InvalidRequest(message, param="generate", code="unsupported_parameter")
        request = super().translate(context)
        items = [msgspec.json.decode(item.body) for item in (*self.earlier, *self._own_items)]
        self._kept = [item for item in items if item.get("type") == "message" and item.get("role") == "user"]
        return replace(
            request,
            messages=(*request.messages, text_message("user", _INSTRUCTION)),
            tool_choice=ToolChoice(mode="none"),
            constraint=None,
            thinking=ThinkingOptions(enabled=False),
            max_tokens=MAX_SUMMARY_TOKENS,
            stream=False,
        )

    def whole(self, *results: TextResult) -> bytes:
        """Return the compacted conversation."""
        (result,) = results
        if not result.text.strip():
            raise SequenceFailed("the model wrote no summary; send the whole conversation")
        suffix = self._id.removeprefix("resp_")
        compaction = {
            "id": f"cmp_{suffix}",
            "type": "compaction",
            "encrypted_content": sign(result.text.strip(), carry=True),
        }
        answer = CompactedResponse(
            id=self._id,
            created_at=self._created,
            output=[*self._kept, compaction],
            usage=response_usage(result.usage),
        )
        return msgspec.json.encode(answer)

"""A client's request in a file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mlxctl.ir.errors import InvalidRequest

Protocol = Literal["chat", "messages", "responses"]

_PATHS: dict[Protocol, str] = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}
_LENGTH_FIELDS: dict[Protocol, str] = {
    "chat": "max_completion_tokens",
    "messages": "max_tokens",
    "responses": "max_output_tokens",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFile:
    """A request body and its protocol."""

    protocol: Protocol
    body: dict[str, Any]

    @property
    def path(self) -> str:
        """Path of the route."""
        return _PATHS[self.protocol]

    def with_one_token(self) -> dict[str, Any]:
        """Return the body with an answer of one token, not streamed."""
        return self.body | {_LENGTH_FIELDS[self.protocol]: 1, "stream": False}


def read_request(path: Path) -> RequestFile:
    """Read the file and detect its protocol by its fields. Raises InvalidRequest."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidRequest(f"cannot read {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{str(path)!r} is not JSON: {error}") from None
    if not isinstance(body, dict) or not ("messages" in body or "input" in body):
        raise InvalidRequest(
            f"{str(path)!r} is not a request: it has neither messages (chat, Anthropic) nor input (Responses)"
        )
    return RequestFile(protocol=_protocol_of(body), body=body)


def _protocol_of(body: dict[str, Any]) -> Protocol:
    if "input" in body:
        return "responses"
    tools = body.get("tools") or []
    has_schemas = any(isinstance(tool, dict) and "input_schema" in tool for tool in tools)
    return "messages" if "system" in body or has_schemas or _has_blocks(body["messages"]) else "chat"


def _has_blocks(messages: Any) -> bool:
    """Whether a message has content blocks of Anthropic's protocol."""
    contents = (
        [message.get("content") for message in messages if isinstance(message, dict)]
        if isinstance(messages, list)
        else []
    )
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return any(
        isinstance(block, dict) and block.get("type") in ("tool_use", "tool_result", "thinking")
        for block in blocks
    )

"""From a body to a new agent: read, check, keep."""

import secrets
from dataclasses import dataclass

import msgspec

from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.openai.agents.schema import AgentSettings, AgentSpec
from mlxctl.protocols.openai.chat_parsing import tool_specs

_DECODER = msgspec.json.Decoder(AgentSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAgent:
    """An agent that was asked for; `settings` is what has to be kept of it, as JSON."""

    id: str
    model: str
    settings: bytes


def parse_agent(body: bytes) -> NewAgent:
    """Read a body. Raises InvalidRequest."""
    asked = decode_body(body, _DECODER)
    tool_specs(asked.tools or ())
    settings = AgentSettings(
        instructions=asked.instructions, tools=asked.tools, context_overflow=asked.context_overflow, metadata=asked.metadata
    )
    return NewAgent(id=asked.id or f"agent_{secrets.token_hex(12)}", model=asked.model, settings=msgspec.json.encode(settings))

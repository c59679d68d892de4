"""From a body to a new agent, or to an agent that is otherwise from now on: read, check, keep."""

import secrets
from dataclasses import dataclass

import msgspec

from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.openai.agents.schema import AgentChange, AgentSettings, AgentSpec
from mlxctl.protocols.openai.chat_tools import tool_specs

_DECODER = msgspec.json.Decoder(AgentSpec)
_CHANGES = msgspec.json.Decoder(AgentChange)
_SETTINGS = msgspec.json.Decoder(AgentSettings)


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
        instructions=asked.instructions,
        tools=asked.tools,
        context_overflow=asked.context_overflow,
        metadata=asked.metadata,
        cache_salt=asked.cache_salt,
    )
    return NewAgent(id=asked.id or f"agent_{secrets.token_hex(12)}", model=asked.model, settings=msgspec.json.encode(settings))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAgent:
    """A change that was asked for; `model` is None where it stays."""

    model: str | None
    _asked: AgentChange

    def settings(self, kept: bytes) -> bytes:
        """Return what has to be kept instead of `kept`."""
        settings = _SETTINGS.decode(kept)
        for name in settings.__struct_fields__:
            if (value := getattr(self._asked, name)) is not msgspec.UNSET:
                setattr(settings, name, value)
        return msgspec.json.encode(settings)


def parse_agent_change(body: bytes) -> ChangedAgent:
    """Read a body. Raises InvalidRequest."""
    asked = decode_body(body, _CHANGES)
    tool_specs(asked.tools or ())
    return ChangedAgent(model=asked.model or None, _asked=asked)

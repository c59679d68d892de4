"""Parsing of new agents and changes."""

import secrets
from dataclasses import dataclass

import msgspec

from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.openai.agents.schema import AgentChange, AgentSettings, AgentSpec
from mlxctl.protocols.openai.chat_tools import tool_specs

USUAL_SETTINGS_BYTES = 1 << 20

_DECODER = msgspec.json.Decoder(AgentSpec)
_CHANGES = msgspec.json.Decoder(AgentChange)
_SETTINGS = msgspec.json.Decoder(AgentSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAgent:
    """A requested agent; `settings` is the JSON to store."""

    id: str
    model: str
    settings: bytes
    is_persistent: bool = True


def parse_agent(body: bytes, *, limit_bytes: int = USUAL_SETTINGS_BYTES) -> NewAgent:
    """Parse a new agent. Raises InvalidRequest, also if its settings exceed `limit_bytes`."""
    decoded = decode_body(body, _DECODER)
    tool_specs(decoded.tools or ())
    given_id = _one_of("id", decoded.id, "agent_id", decoded.agent_id)
    settings = AgentSettings(
        instructions=_one_of("instructions", decoded.instructions, "system_prompt", decoded.system_prompt),
        tools=decoded.tools,
        max_context=decoded.max_context,
        context_overflow=decoded.context_overflow,
        metadata=decoded.metadata,
        cache_salt=decoded.cache_salt,
    )
    kept = _bounded(settings, limit_bytes)
    return NewAgent(
        id=given_id or f"agent_{secrets.token_hex(12)}",
        model=decoded.model,
        settings=kept,
        is_persistent=decoded.persist,
    )


def _one_of(name: str, value: str | None, other_name: str, other: str | None) -> str | None:
    """Return the value of a field with two names.

    Raises InvalidRequest if both are given.
    """
    if value is not None and other is not None:
        raise InvalidRequest(f"{other_name} is another name of {name}; send one of them", param=other_name)
    return other if value is None else value


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAgent:
    """A requested change; `model` is None if unchanged."""

    model: str | None
    _change: AgentChange
    _limit_bytes: int

    def settings(self, kept: bytes) -> bytes:
        """Return the stored settings with the change. Raises InvalidRequest if too large."""
        settings = _SETTINGS.decode(kept)
        for name in settings.__struct_fields__:
            if (value := getattr(self._change, name)) is not msgspec.UNSET:
                setattr(settings, name, value)
        return _bounded(settings, self._limit_bytes)


def parse_agent_change(body: bytes, *, limit_bytes: int = USUAL_SETTINGS_BYTES) -> ChangedAgent:
    """Parse a change; the settings may have `limit_bytes`. Raises InvalidRequest."""
    decoded = decode_body(body, _CHANGES)
    tool_specs(decoded.tools or ())
    return ChangedAgent(model=decoded.model or None, _change=decoded, _limit_bytes=limit_bytes)


def _bounded(settings: AgentSettings, limit_bytes: int) -> bytes:
    """Return the settings as JSON; the error names the largest of them."""
    kept = msgspec.json.encode(settings)
    if len(kept) > limit_bytes:
        largest = max(
            settings.__struct_fields__, key=lambda name: len(msgspec.json.encode(getattr(settings, name)))
        )
        raise InvalidRequest(
            f"instructions, tools and metadata of an agent may take {limit_bytes} bytes together, and these "
            f"take {len(kept)}; "
            f"shorten {largest} (server.agent_settings_bytes)",
            param=largest,
            code="agent_settings_too_large",
        )
    return kept

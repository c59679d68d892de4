"""Registry of wire protocols: parsers, encoders and errors."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from mlxctl.ir.errors import UnknownThread
from mlxctl.protocols.anthropic.errors import AnthropicError, anthropic_error
from mlxctl.protocols.anthropic.messages import MessageEncoder, parse_messages, parse_messages_with
from mlxctl.protocols.compat.llama_cpp.routes import DIALECT as LLAMA_CPP_DIALECT
from mlxctl.protocols.compat.lm_studio.routes import DIALECT as LM_STUDIO_DIALECT
from mlxctl.protocols.compat.ollama.routes import DIALECT as OLLAMA_DIALECT
from mlxctl.protocols.compat.rerank.routes import DIALECT as RERANK_DIALECT
from mlxctl.protocols.dialect import Dialect
from mlxctl.protocols.openai.agents.turns import TurnEncoder, parse_turn, parse_turn_with
from mlxctl.protocols.openai.chat import ChatEncoder, parse_chat
from mlxctl.protocols.openai.completions import CompletionEncoder, parse_completion
from mlxctl.protocols.openai.errors import OpenAIError, openai_error
from mlxctl.protocols.openai.responses.compaction import (
    CompactionEncoder,
    parse_compaction,
    parse_compaction_with,
)
from mlxctl.protocols.openai.responses.encoder import ResponseEncoder, parse_response, parse_response_with
from mlxctl.protocols.wire_protocol import GenerationProtocol, Threads, WireProtocol

_OPENAI: dict[str, Any] = {"vendor": "openai", "error": OpenAIError}
_ANTHROPIC: dict[str, Any] = {
    "vendor": "anthropic",
    "error": AnthropicError,
    "render_error": anthropic_error,
}
OPENAI = WireProtocol(**_OPENAI, render_error=openai_error)
OPENAI_EMBEDDINGS = WireProtocol(
    **_OPENAI, render_error=partial(openai_error, prompt_field="input", has_detail=True)
)
ANTHROPIC = WireProtocol(**_ANTHROPIC)

DIALECTS: Mapping[str, Dialect] = {
    "llama_cpp": LLAMA_CPP_DIALECT,
    "lm_studio": LM_STUDIO_DIALECT,
    "ollama": OLLAMA_DIALECT,
    "rerank": RERANK_DIALECT,
}
"""The APIs of other servers, by the folder of `compat`."""

PROTOCOLS: Mapping[str, GenerationProtocol] = {
    "chat": GenerationProtocol(
        **_OPENAI,
        render_error=openai_error,
        parse=parse_chat,
        create_encoder=ChatEncoder,
    ),
    "completions": GenerationProtocol(
        **_OPENAI,
        render_error=partial(openai_error, prompt_field="prompt"),
        parse=parse_completion,
        create_encoder=CompletionEncoder,
    ),
    "responses": GenerationProtocol(
        **_OPENAI,
        render_error=partial(openai_error, prompt_field="input"),
        parse=parse_response,
        parse_with=parse_response_with,
        create_encoder=ResponseEncoder,
    ),
    "messages": GenerationProtocol(
        **_ANTHROPIC,
        parse=parse_messages,
        parse_with=parse_messages_with,
        create_encoder=MessageEncoder,
        threads=Threads(kind="threads", unknown=UnknownThread),
    ),
    **{route.name: route.protocol for dialect in DIALECTS.values() for route in dialect.generation},
}
"""The protocols that generate text, by the name that callers of `/cache/explain` use."""

COMPACTION = replace(
    PROTOCOLS["responses"],
    parse=parse_compaction,
    parse_with=parse_compaction_with,
    create_encoder=CompactionEncoder,
)
AGENT_TURNS = replace(
    PROTOCOLS["chat"], parse=parse_turn, parse_with=parse_turn_with, create_encoder=TurnEncoder
)

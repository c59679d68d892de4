"""Registry of wire protocols: parsers, encoders and errors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from mlxctl.ir import GenerationRequest
from mlxctl.protocols.anthropic.errors import anthropic_error
from mlxctl.protocols.anthropic.messages import MessageEncoder, parse_messages, parse_messages_with
from mlxctl.protocols.compat.llama_cpp import encode as llama_cpp
from mlxctl.protocols.compat.llama_cpp.errors import llama_error
from mlxctl.protocols.compat.lm_studio import stats as lm_studio
from mlxctl.protocols.compat.lm_studio.chat import (
    NativeChatEncoder,
    parse_native_chat,
    parse_native_chat_with,
)
from mlxctl.protocols.compat.ollama import encode as ollama
from mlxctl.protocols.compat.rerank.encode import cohere_error
from mlxctl.protocols.encoder import Encoder, Parsed, StoredContext
from mlxctl.protocols.error_body import ErrorBody
from mlxctl.protocols.openai.agents.turns import TurnEncoder, parse_turn, parse_turn_with
from mlxctl.protocols.openai.chat import ChatEncoder, parse_chat
from mlxctl.protocols.openai.completions import CompletionEncoder, parse_completion
from mlxctl.protocols.openai.errors import openai_error
from mlxctl.protocols.openai.responses.compaction import (
    CompactionEncoder,
    parse_compaction,
    parse_compaction_with,
)
from mlxctl.protocols.openai.responses.encoder import ResponseEncoder, parse_response, parse_response_with


@dataclass(frozen=True, slots=True, kw_only=True)
class WireProtocol:
    """A wire protocol: its vendor and the shape of its errors.

    `render_error(error, request_id=...)` returns the response; not every vendor's shape has the id.
    """

    vendor: Literal["openai", "anthropic", "ollama", "llama_cpp", "cohere"]
    render_error: Callable[..., ErrorBody]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationProtocol(WireProtocol):
    """A wire protocol that generates text.

    `parse` reads a body; `parse_with` also takes what is stored of its reference, where bodies may refer to
    something. Both raise InvalidRequest with the caller's field as `param`, and are functions of a module, so
    that a preparation process can call them. `create_encoder` makes the encoder of a shape.
    """

    parse: Callable[[bytes], Parsed]
    parse_with: Callable[[bytes, Any], Parsed] | None = None
    create_encoder: Callable[[Any], Encoder]
    stream_media_type: str = "text/event-stream"

    def parse_alone(self, body: bytes) -> GenerationRequest:
        """Parse a body without stored data. Raises InvalidRequest."""
        parsed, _ = self.parse(body) if self.parse_with is None else self.parse_with(body, StoredContext())
        assert isinstance(parsed, GenerationRequest), "nothing is left to refer to"
        return parsed


NDJSON = "application/x-ndjson"

OPENAI = WireProtocol(vendor="openai", render_error=openai_error)
OPENAI_EMBEDDINGS = WireProtocol(
    vendor="openai", render_error=partial(openai_error, prompt_field="input", has_detail=True)
)
RERANK = WireProtocol(
    vendor="openai", render_error=partial(openai_error, prompt_field="documents", has_detail=True)
)
OLLAMA = WireProtocol(vendor="ollama", render_error=ollama.ollama_error)
ANTHROPIC = WireProtocol(vendor="anthropic", render_error=anthropic_error)
LLAMA_CPP = WireProtocol(vendor="llama_cpp", render_error=llama_error)
COHERE = WireProtocol(vendor="cohere", render_error=cohere_error)

PROTOCOLS: Mapping[str, GenerationProtocol] = {
    "chat": GenerationProtocol(
        vendor="openai",
        render_error=openai_error,
        parse=parse_chat,
        create_encoder=ChatEncoder,
    ),
    "completions": GenerationProtocol(
        vendor="openai",
        render_error=partial(openai_error, prompt_field="prompt"),
        parse=parse_completion,
        create_encoder=CompletionEncoder,
    ),
    "responses": GenerationProtocol(
        vendor="openai",
        render_error=partial(openai_error, prompt_field="input"),
        parse=parse_response,
        parse_with=parse_response_with,
        create_encoder=ResponseEncoder,
    ),
    "messages": GenerationProtocol(
        vendor="anthropic",
        render_error=anthropic_error,
        parse=parse_messages,
        parse_with=parse_messages_with,
        create_encoder=MessageEncoder,
    ),
    "lm_studio_chat": GenerationProtocol(
        vendor="openai",
        render_error=partial(openai_error, prompt_field="input"),
        parse=parse_native_chat,
        parse_with=parse_native_chat_with,
        create_encoder=NativeChatEncoder,
    ),
    "lm_studio_v0_chat": GenerationProtocol(
        vendor="openai",
        render_error=openai_error,
        parse=lm_studio.parse_chat,
        create_encoder=lm_studio.LMStudioChatEncoder,
    ),
    "lm_studio_v0_completions": GenerationProtocol(
        vendor="openai",
        render_error=partial(openai_error, prompt_field="prompt"),
        parse=lm_studio.parse_completion,
        create_encoder=lm_studio.LMStudioCompletionEncoder,
    ),
    "llama_completion": GenerationProtocol(
        vendor="llama_cpp",
        render_error=llama_error,
        parse=llama_cpp.parse_completion,
        create_encoder=llama_cpp.LlamaEncoder,
    ),
    "llama_infill": GenerationProtocol(
        vendor="llama_cpp",
        render_error=llama_error,
        parse=llama_cpp.parse_infill,
        create_encoder=llama_cpp.LlamaEncoder,
    ),
    "ollama_chat": GenerationProtocol(
        vendor="ollama",
        render_error=ollama.ollama_error,
        parse=ollama.parse_chat,
        create_encoder=ollama.OllamaEncoder,
        stream_media_type=NDJSON,
    ),
    "ollama_generate": GenerationProtocol(
        vendor="ollama",
        render_error=ollama.ollama_error,
        parse=ollama.parse_generate,
        create_encoder=ollama.OllamaEncoder,
        stream_media_type=NDJSON,
    ),
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

"""Registry of wire protocols: their formatters and their errors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from mlxctl.protocols.anthropic.errors import anthropic_error
from mlxctl.protocols.anthropic.messages import AnthropicMessagesFormatter
from mlxctl.protocols.compat.llama_cpp.errors import llama_error
from mlxctl.protocols.compat.llama_cpp.formatter import LlamaFormatter
from mlxctl.protocols.compat.lm_studio.chat import LMStudioNativeChatFormatter
from mlxctl.protocols.compat.ollama.formatter import OllamaFormatter, ollama_error
from mlxctl.protocols.compat.rerank.formatter import cohere_error
from mlxctl.protocols.error_body import ErrorBody
from mlxctl.protocols.formatter import Formatter
from mlxctl.protocols.openai.chat import OpenAIChatFormatter
from mlxctl.protocols.openai.completions import OpenAICompletionsFormatter
from mlxctl.protocols.openai.errors import openai_error
from mlxctl.protocols.openai.responses.formatter import OpenAIResponsesFormatter


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

    `create_formatter` makes the formatter of one request.
    """

    create_formatter: Callable[..., Formatter]


OPENAI = WireProtocol(vendor="openai", render_error=openai_error)
OPENAI_EMBEDDINGS = WireProtocol(
    vendor="openai", render_error=partial(openai_error, prompt_field="input", has_detail=True)
)
RERANK = WireProtocol(
    vendor="openai", render_error=partial(openai_error, prompt_field="documents", has_detail=True)
)
OLLAMA = WireProtocol(vendor="ollama", render_error=ollama_error)
ANTHROPIC = WireProtocol(vendor="anthropic", render_error=anthropic_error)
LLAMA_CPP = WireProtocol(vendor="llama_cpp", render_error=llama_error)
COHERE = WireProtocol(vendor="cohere", render_error=cohere_error)

PROTOCOLS: Mapping[str, GenerationProtocol] = {
    "chat": GenerationProtocol(
        vendor="openai", render_error=openai_error, create_formatter=OpenAIChatFormatter
    ),
    "completions": GenerationProtocol(
        vendor="openai",
        render_error=partial(openai_error, prompt_field="prompt"),
        create_formatter=OpenAICompletionsFormatter,
    ),
    "responses": GenerationProtocol(
        vendor="openai",
        render_error=partial(openai_error, prompt_field="input"),
        create_formatter=OpenAIResponsesFormatter,
    ),
    "messages": GenerationProtocol(
        vendor="anthropic", render_error=anthropic_error, create_formatter=AnthropicMessagesFormatter
    ),
    "lm_studio_chat": GenerationProtocol(
        vendor="openai",
        render_error=partial(openai_error, prompt_field="input"),
        create_formatter=LMStudioNativeChatFormatter,
    ),
    "llama_completion": GenerationProtocol(
        vendor="llama_cpp",
        render_error=llama_error,
        create_formatter=partial(LlamaFormatter, route="completion"),
    ),
    "llama_infill": GenerationProtocol(
        vendor="llama_cpp",
        render_error=llama_error,
        create_formatter=partial(LlamaFormatter, route="infill"),
    ),
    "ollama_chat": GenerationProtocol(
        vendor="ollama", render_error=ollama_error, create_formatter=partial(OllamaFormatter, route="chat")
    ),
    "ollama_generate": GenerationProtocol(
        vendor="ollama",
        render_error=ollama_error,
        create_formatter=partial(OllamaFormatter, route="generate"),
    ),
}
"""The protocols that generate text, by the name that callers of `/cache/explain` use."""

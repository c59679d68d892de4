"""Wire formats: request bodies to GenerationRequest, events and results to response bytes.

Runs on the front's event loop; large bodies are parsed in preparation processes. Knows no HTTP and no model;
imports only `ir`.
"""

from mlxctl.protocols.anthropic.errors import anthropic_error
from mlxctl.protocols.anthropic.messages import (
    AnthropicMessagesFormatter,
    encode_token_count,
    parse_count_tokens,
)
from mlxctl.protocols.error_body import ErrorBody
from mlxctl.protocols.formatter import Formatter
from mlxctl.protocols.headers import (
    OVERFLOW_HEADER,
    PRIORITY_HEADER,
    header_context_overflow,
    header_priority,
)
from mlxctl.protocols.model_list import ModelCard, ModelPage, encode_model, encode_model_list
from mlxctl.protocols.openai.agents.formatter import AgentTurnFormatter, stored_conversation
from mlxctl.protocols.openai.agents.objects import (
    AgentCache,
    AgentCacheStatus,
    AgentPage,
    AgentStatus,
    encode_agent,
    encode_agent_deletion,
    encode_agents,
    encode_messages,
)
from mlxctl.protocols.openai.agents.specification import parse_agent, parse_agent_change
from mlxctl.protocols.openai.chat import OpenAIChatFormatter
from mlxctl.protocols.openai.completions import OpenAICompletionsFormatter
from mlxctl.protocols.openai.embeddings import OpenAIEmbeddingsFormatter
from mlxctl.protocols.openai.errors import error_code, openai_error
from mlxctl.protocols.openai.lists import MAX_PAGE_BYTES, num_fitting
from mlxctl.protocols.openai.responses.formatter import OpenAIResponsesFormatter
from mlxctl.protocols.openai.responses.item_list import Page, encode_deletion, encode_item_list
from mlxctl.protocols.openai.responses.parsing import References, StoredContext
from mlxctl.protocols.openai.transcriptions import OpenAITranscriptionFormatter
from mlxctl.protocols.problem import problem_error
from mlxctl.protocols.registry import (
    ANTHROPIC,
    OLLAMA,
    OPENAI,
    OPENAI_EMBEDDINGS,
    PROTOCOLS,
    GenerationProtocol,
    WireProtocol,
)

__all__ = [
    "ANTHROPIC",
    "MAX_PAGE_BYTES",
    "OLLAMA",
    "OPENAI",
    "OPENAI_EMBEDDINGS",
    "OVERFLOW_HEADER",
    "PRIORITY_HEADER",
    "PROTOCOLS",
    "AgentCache",
    "AgentCacheStatus",
    "AgentPage",
    "AgentStatus",
    "AgentTurnFormatter",
    "AnthropicMessagesFormatter",
    "ErrorBody",
    "Formatter",
    "GenerationProtocol",
    "ModelCard",
    "ModelPage",
    "OpenAIChatFormatter",
    "OpenAICompletionsFormatter",
    "OpenAIEmbeddingsFormatter",
    "OpenAIResponsesFormatter",
    "OpenAITranscriptionFormatter",
    "Page",
    "References",
    "StoredContext",
    "WireProtocol",
    "anthropic_error",
    "encode_agent",
    "encode_agent_deletion",
    "encode_agents",
    "encode_deletion",
    "encode_item_list",
    "encode_messages",
    "encode_model",
    "encode_model_list",
    "encode_token_count",
    "error_code",
    "header_context_overflow",
    "header_priority",
    "num_fitting",
    "openai_error",
    "parse_agent",
    "parse_agent_change",
    "parse_count_tokens",
    "problem_error",
    "stored_conversation",
]

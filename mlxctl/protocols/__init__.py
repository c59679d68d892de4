"""Wire formats: bodies to requests and shapes, events and results to bytes.

Runs on the front's event loop; large bodies are parsed in preparation processes. Knows no HTTP and no model;
imports only `ir`.
"""

from mlxctl.protocols.anthropic.errors import anthropic_error
from mlxctl.protocols.anthropic.messages import encode_token_count, parse_count_tokens
from mlxctl.protocols.encoder import (
    AnswerStart,
    Encoder,
    ModelSummary,
    Parsed,
    Reference,
    ReplyShape,
    StoredContext,
)
from mlxctl.protocols.error_body import ErrorBody
from mlxctl.protocols.headers import (
    OVERFLOW_HEADER,
    PRIORITY_HEADER,
    ROUTE_HEADER,
    header_context_overflow,
    header_priority,
    header_route,
)
from mlxctl.protocols.model_list import Model, ModelPage
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
from mlxctl.protocols.openai.agents.turns import StoredHistory, stored_conversation
from mlxctl.protocols.openai.errors import error_code, openai_error
from mlxctl.protocols.openai.lists import MAX_PAGE_BYTES, num_fitting
from mlxctl.protocols.openai.responses.item_list import Page, encode_deletion, encode_item_list
from mlxctl.protocols.problem import problem_error
from mlxctl.protocols.registry import (
    AGENT_TURNS,
    ANTHROPIC,
    COMPACTION,
    DIALECTS,
    OPENAI,
    OPENAI_EMBEDDINGS,
    PROTOCOLS,
)
from mlxctl.protocols.wire_protocol import GenerationProtocol, WireProtocol

__all__ = [
    "AGENT_TURNS",
    "ANTHROPIC",
    "COMPACTION",
    "DIALECTS",
    "MAX_PAGE_BYTES",
    "OPENAI",
    "OPENAI_EMBEDDINGS",
    "OVERFLOW_HEADER",
    "PRIORITY_HEADER",
    "PROTOCOLS",
    "ROUTE_HEADER",
    "AgentCache",
    "AgentCacheStatus",
    "AgentPage",
    "AgentStatus",
    "AnswerStart",
    "Encoder",
    "ErrorBody",
    "GenerationProtocol",
    "Model",
    "ModelPage",
    "ModelSummary",
    "Page",
    "Parsed",
    "Reference",
    "ReplyShape",
    "StoredContext",
    "StoredHistory",
    "WireProtocol",
    "anthropic_error",
    "encode_agent",
    "encode_agent_deletion",
    "encode_agents",
    "encode_deletion",
    "encode_item_list",
    "encode_messages",
    "encode_token_count",
    "error_code",
    "header_context_overflow",
    "header_priority",
    "header_route",
    "num_fitting",
    "openai_error",
    "parse_agent",
    "parse_agent_change",
    "parse_count_tokens",
    "problem_error",
    "stored_conversation",
]

"""Anthropic's routes: messages and their token counts."""

from mlxctl.protocols import ANTHROPIC, PROTOCOLS
from mlxctl.protocols.anthropic.messages_answers import MESSAGE_EVENTS, AnthropicMessage, TokenCount
from mlxctl.protocols.anthropic.messages_schema import CountTokensRequest, MessagesRequest
from mlxctl.server.http.route import GENERATION_ERRORS, Operation, Route
from mlxctl.server.resources.generation.generation import GenerationResource
from mlxctl.server.resources.text.tokenization import TokenCountResource

ROUTES = (
    Route(
        path="/v1/messages",
        aliases=("/messages",),
        resource=lambda context: GenerationResource(context, PROTOCOLS["messages"]),
        protocol=PROTOCOLS["messages"],
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Create a message (Anthropic)",
                body=MessagesRequest,
                answer=AnthropicMessage,
                events=MESSAGE_EVENTS,
                errors=(*GENERATION_ERRORS, 529),
            ),
        ),
    ),
    Route(
        path="/v1/messages/count_tokens",
        aliases=("/messages/count_tokens",),
        resource=lambda context: TokenCountResource(context.services.inference, context.settings),
        protocol=ANTHROPIC,
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Count the tokens of a prompt (Anthropic)",
                body=CountTokensRequest,
                answer=TokenCount,
                errors=(404, 429, 500, 503, 504),
            ),
        ),
    ),
)

"""Routes of agents: conversations whose history the server stores."""

from mlxctl.protocols import AGENT_TURNS, OPENAI
from mlxctl.protocols.openai.agents.objects import AgentList, AgentMessageList, AgentObject
from mlxctl.protocols.openai.agents.schema import AgentChange, AgentSpec, AgentTurn
from mlxctl.protocols.openai.chat_answers import ChatCompletion
from mlxctl.protocols.openai.lists import Deletion
from mlxctl.server.http.route import (
    GENERATION_ERRORS,
    PAGE_AFTER,
    PAGE_LIMIT,
    Operation,
    Route,
    RouteContext,
)
from mlxctl.server.resources.agents.agents import (
    AgentMessagesResource,
    AgentResetResource,
    AgentResource,
    AgentsResource,
    AgentViews,
)
from mlxctl.server.resources.generation.conversations import AgentConversations
from mlxctl.server.resources.generation.generation import GenerationResource
from mlxctl.server.routes.openai import CHAT_EVENTS


def _views(context: RouteContext) -> AgentViews:
    return AgentViews(context.services.agents, context.services.inference)


def _turns(context: RouteContext) -> object:
    services, settings = context.services, context.settings
    conversations = AgentConversations(
        services.agents, context.agent_queue, max_bytes=settings.agent_history_bytes
    )
    return GenerationResource(context, AGENT_TURNS, conversations=conversations)


ROUTES = (
    Route(
        path="/v1/agents",
        resource=lambda context: AgentsResource(_views(context), context.settings),
        protocol=OPENAI,
        access="generate",
        operations=(
            Operation(method="get", summary="List agents", answer=AgentList, query=(PAGE_LIMIT, PAGE_AFTER)),
            Operation(
                method="post",
                summary="Create an agent, whose conversation the server keeps",
                body=AgentSpec,
                answer=AgentObject,
                status=201,
                errors=(404, 409),
            ),
        ),
    ),
    Route(
        path="/v1/agents/{agent_id}",
        resource=lambda context: AgentResource(_views(context), context.settings),
        protocol=OPENAI,
        access="generate",
        operations=(
            Operation(method="get", summary="Get an agent", answer=AgentObject, errors=(404,)),
            Operation(
                method="patch",
                summary="Change an agent, from its next turn on",
                body=AgentChange,
                answer=AgentObject,
                errors=(404,),
            ),
            Operation(method="delete", summary="Delete an agent", answer=Deletion, errors=(404,)),
        ),
    ),
    Route(
        path="/v1/agents/{agent_id}/messages",
        resource=lambda context: AgentMessagesResource(_views(context)),
        protocol=OPENAI,
        access="generate",
        operations=(
            Operation(
                method="get",
                summary="List the messages of an agent",
                answer=AgentMessageList,
                query=(PAGE_LIMIT, PAGE_AFTER),
                errors=(404,),
            ),
        ),
    ),
    Route(
        path="/v1/agents/{agent_id}/reset",
        resource=lambda context: AgentResetResource(_views(context)),
        protocol=OPENAI,
        access="generate",
        operations=(
            Operation(method="post", summary="Delete an agent's messages", answer=AgentObject, errors=(404,)),
        ),
    ),
    Route(
        path="/v1/agents/{agent_id}/generate",
        resource=_turns,
        protocol=OPENAI,
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Continue an agent's conversation with new messages",
                body=AgentTurn,
                answer=ChatCompletion,
                events=CHAT_EVENTS,
                errors=(*GENERATION_ERRORS, 409),
            ),
        ),
    ),
)

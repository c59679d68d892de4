"""/v1/agents: create, read, change, reset and delete agents."""

import asyncio
from collections import Counter
from functools import partial
from typing import get_args

import falcon
from falcon.asgi import Request, Response

from mlxctl.inference import InferenceService
from mlxctl.inference.cache.inspector import CachedPrompt
from mlxctl.inference.call_context import CallContext
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir import StoredAgent
from mlxctl.ir.errors import CapacityError, EngineError, RequestError
from mlxctl.protocols import (
    MAX_PAGE_BYTES,
    AgentCache,
    AgentCacheStatus,
    AgentPage,
    AgentStatus,
    encode_agent,
    encode_agent_deletion,
    encode_agents,
    encode_messages,
    num_fitting,
    parse_agent,
    parse_agent_change,
    stored_conversation,
)
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_body
from mlxctl.server.policy.caller import allowed_models, call_of
from mlxctl.server.resources.generation.conversations import unknown_agent
from mlxctl.state.settings import ServerSettings
from mlxctl.state.stores import AgentStores

_READ_AT_ONCE = 4


class AgentViews:
    """Agents with their cache status.

    The store has their history, the engine's prefix cache their context.
    """

    def __init__(self, store: AgentStores, inference: InferenceService) -> None:
        self.store = store
        self.preparation = inference.preparation
        self._inference = inference

    async def find(self, caller: str, agent_id: str) -> StoredAgent:
        """Return the caller's agent with this id. Raises UnknownResource."""
        agent = await asyncio.to_thread(self.store.find, caller, agent_id)
        if agent is None:
            raise unknown_agent(agent_id)
        return agent

    def page(self, caller: str, page: AgentPage) -> tuple[list[StoredAgent], bool]:
        """Return a page of the caller's agents and whether there are more.

        Blocks on the disk. Raises InvalidRequest.
        """
        found: list[StoredAgent] = []
        num_bytes, after, has_more = 0, page.after, True
        while has_more and len(found) < page.limit:
            # A few at a time, so that agents that do not fit the page are not read.
            some, has_more = self.store.page(
                caller, after=after, limit=min(page.limit - len(found), _READ_AT_ONCE)
            )
            for agent in some:
                num_bytes += len(agent.settings)
                if found and num_bytes > MAX_PAGE_BYTES:
                    return found, True
                found.append(agent)
            after = found[-1].id if found else None
        return found, has_more

    async def check_model(self, name: str, call: CallContext) -> str:
        """Return the registered name of a model. Raises UnknownModel."""
        return await self._inference.models.check(name, call)

    async def caches(self, agent: StoredAgent, request: Request) -> list[AgentCache]:
        """Return the agent's cached context in each loaded text model; loads none."""
        if not agent.num_messages:
            return []
        loaded = {
            model.name: None
            for model in self._inference.models.served(allowed_models(request))
            if model.memory is not None and model.facts.purpose == "text"
        }
        found = []
        history = await self._history(agent)
        for name in loaded:
            try:
                prompt = await self._look_up(history.with_head(model=name), request)
            except (RequestError, CapacityError, EngineError):
                continue
            found.append(
                AgentCache(
                    model=name,
                    status=_cache_status(prompt).status,
                    cached_tokens=prompt.num_cached_tokens,
                    disk_tokens=prompt.num_tokens_on_disk,
                )
            )
        return found

    async def _history(self, agent: StoredAgent) -> PackedRequest:
        messages = await asyncio.to_thread(self.store.messages, agent)
        history = [body for _, body in messages]
        packed: PackedRequest = await self._inference.preparation.call(
            stored_conversation, agent, history, num_bytes=agent.num_bytes
        )
        return packed

    async def cache_status(self, agent: StoredAgent, request: Request) -> AgentCacheStatus:
        """Return how much of the agent's context is cached.

        Unknown if its model is unavailable.
        """
        if not agent.num_messages:
            return AgentCacheStatus(num_context_tokens=0, num_cached_tokens=0)
        try:
            return _cache_status(await self._look_up(await self._history(agent), request))
        except (RequestError, CapacityError, EngineError):
            return AgentCacheStatus()

    async def _look_up(self, history: PackedRequest, request: Request) -> CachedPrompt:
        return await self._inference.cache.look_up(history, call_of(request))


async def count_active_agents(inference: InferenceService) -> dict[AgentStatus, int] | None:
    """Return the numbers of recently active agents by status.

    None where the engine does not answer.
    """
    prompts = await inference.agents.cached_prompts()
    if prompts is None:
        return None
    counts = Counter(_cache_status(prompt).status for prompt in prompts)
    return {status: counts[status] for status in get_args(AgentStatus)}


def _cache_status(prompt: CachedPrompt) -> AgentCacheStatus:
    return AgentCacheStatus.of(
        num_context_tokens=prompt.num_prompt_tokens,
        num_cached_tokens=prompt.num_cached_tokens,
        num_tokens_on_disk=prompt.num_tokens_on_disk,
    )


class AgentsResource:
    """/v1/agents: the agents of the caller."""

    def __init__(self, views: AgentViews, settings: ServerSettings) -> None:
        self._views = views
        self._settings = settings

    async def on_get(self, request: Request, response: Response) -> None:
        """List agents, oldest first. Raises InvalidRequest."""
        page = AgentPage.read(limit=request.get_param("limit"), after=request.get_param("after"))
        agents, has_more = await asyncio.to_thread(self._views.page, call_of(request).owner, page)
        statuses = [await self._views.cache_status(agent, request) for agent in agents]
        answer(response, encode_agents(list(zip(agents, statuses, strict=True)), has_more=has_more))

    async def on_post(self, request: Request, response: Response) -> None:
        """Create an agent. Raises InvalidRequest, UnknownModel, Conflict."""
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        parse = partial(parse_agent, limit_bytes=self._settings.agent_settings_bytes)
        spec = await self._views.preparation.parse(body, parse)
        model = await self._views.check_model(spec.model, call_of(request))
        agent = await asyncio.to_thread(
            self._views.store.create,
            call_of(request).owner,
            spec.id,
            model=model,
            settings=spec.settings,
            is_persistent=spec.is_persistent,
        )
        response.status = falcon.HTTP_201
        answer(response, encode_agent(agent, await self._views.cache_status(agent, request)))


class AgentResource:
    """/v1/agents/{id}: one agent of the caller."""

    def __init__(self, views: AgentViews, settings: ServerSettings) -> None:
        self._views = views
        self._settings = settings

    async def on_get(self, request: Request, response: Response, agent_id: str) -> None:
        """Return the agent. Raises UnknownResource."""
        agent = await self._views.find(call_of(request).owner, agent_id)
        cache_status = await self._views.cache_status(agent, request)
        answer(response, encode_agent(agent, cache_status, await self._views.caches(agent, request)))

    async def on_patch(self, request: Request, response: Response, agent_id: str) -> None:
        """Change the agent from its next turn on; the history stays.

        Raises UnknownResource, InvalidRequest.
        """
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        parse = partial(parse_agent_change, limit_bytes=self._settings.agent_settings_bytes)
        spec = await self._views.preparation.parse(body, parse)
        model = spec.model
        if model is not None:
            model = await self._views.check_model(model, call_of(request))
        agent = await asyncio.to_thread(
            self._views.store.change,
            call_of(request).owner,
            agent_id,
            model=model,
            settings=spec.settings,
        )
        if agent is None:
            raise unknown_agent(agent_id)
        answer(response, encode_agent(agent, await self._views.cache_status(agent, request)))

    async def on_delete(self, request: Request, response: Response, agent_id: str) -> None:
        """Delete the agent and its history; a running turn fails. Raises UnknownResource."""
        if not await asyncio.to_thread(self._views.store.delete, call_of(request).owner, agent_id):
            raise unknown_agent(agent_id)
        answer(response, encode_agent_deletion(agent_id))


class AgentMessagesResource:
    """The messages of an agent."""

    def __init__(self, views: AgentViews) -> None:
        self._views = views

    async def on_get(self, request: Request, response: Response, agent_id: str) -> None:
        """List messages in order. Raises UnknownResource, InvalidRequest."""
        page = AgentPage.read(limit=request.get_param("limit"), after=request.get_param("after"))
        agent = await self._views.find(call_of(request).owner, agent_id)
        found = await asyncio.to_thread(
            self._views.store.messages, agent, after=page.position, limit=page.limit + 1
        )
        num_fitting_entries = num_fitting([len(body) for _, body in found[: page.limit]])
        answer(
            response, encode_messages(found[:num_fitting_entries], has_more=len(found) > num_fitting_entries)
        )


class AgentResetResource:
    """Deletion of an agent's messages."""

    def __init__(self, views: AgentViews) -> None:
        self._views = views

    async def on_post(self, request: Request, response: Response, agent_id: str) -> None:
        """Delete all messages; a running turn fails. Raises UnknownResource."""
        agent = await asyncio.to_thread(self._views.store.reset, call_of(request).owner, agent_id)
        if agent is None:
            raise unknown_agent(agent_id)
        answer(response, encode_agent(agent, await self._views.cache_status(agent, request)))

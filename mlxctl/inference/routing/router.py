"""Sends each request to the local engine or to a remote.

Event-loop thread only.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import fields, replace

from mlxctl.inference.answers import Answers
from mlxctl.inference.call_context import CallContext, PromptFacts
from mlxctl.inference.guarded_answers import GuardedAnswers
from mlxctl.inference.preparation import PackedRequest
from mlxctl.inference.remote import RemoteModel
from mlxctl.inference.routing.affinity import Affinity, prefixes_of
from mlxctl.inference.routing.remote_server import RemoteServer
from mlxctl.inference.routing.rules import ANY_REMOTE, Rules, Target, prompt_bytes
from mlxctl.inference.screening import output_rules, screen
from mlxctl.inference.service import InferenceService
from mlxctl.ir import GenerationRequest, SamplingOptions, SamplingParams
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.errors import (
    CapacityError,
    EngineError,
    FeatureDisabled,
    InvalidRequest,
    MlxctlError,
    ModelUnavailable,
    ShuttingDown,
    UnknownModel,
)
from mlxctl.state.settings import RemoteSettings

VIA_HEADER = "x-mlxctl-via"
"""Header with the ids of the servers that a request has passed."""
_FIRST_CHECK_SECONDS = 2.0

_log = logging.getLogger(__name__)


class Router:
    """Generates text here or elsewhere.

    A model of this machine answers here, unless a rule or the request says otherwise; another one at the
    remotes that offer it. Nothing is sent to the remotes that are `off`: cloud servers while
    `routing.cloud` is false. `server_id` is this server's in VIA_HEADER.
    """

    def __init__(
        self,
        inference: InferenceService,
        *,
        server_id: str = "",
        servers: Sequence[RemoteServer] = (),
        off: Sequence[RemoteSettings] = (),
        rules: Rules | None = None,
    ) -> None:
        self.server_id = server_id
        self.servers = tuple(sorted(servers, key=lambda server: server.settings.priority))
        self._inference = inference
        self._off = tuple(off)
        self._rules = rules or Rules()
        self._affinity = Affinity()
        self._is_stopping = False
        inference.models.is_elsewhere = lambda name: any(name in server.models for server in self.servers)

    async def open(self) -> None:
        """Begin to check the remotes; returns when most are known."""
        for server in self.servers:
            server.open()
        waiting = [asyncio.create_task(server.wait_checked()) for server in self.servers]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=_FIRST_CHECK_SECONDS)
            for task in late:
                task.cancel()

    def stop(self) -> None:
        """Take no new requests."""
        self._is_stopping = True

    @property
    def num_open(self) -> int:
        """Open requests to remotes."""
        return sum(server.num_open for server in self.servers)

    async def close(self) -> None:
        """End all requests to remotes."""
        for server in self.servers:
            await server.close()

    async def answering(self, name: str, call: CallContext) -> str:
        """Return the model that answers to `name`, as `Models.answering` does."""
        if call.pin == "remote":
            call.record.name_model(name)
            return name
        return await self._inference.models.answering(name, call)

    def remote_models(self, allowed: AllowedModels) -> list[tuple[RemoteServer, RemoteModel]]:
        """Return the models of remotes that this machine has not, each once."""
        found: dict[str, tuple[RemoteServer, RemoteModel]] = {}
        for server in self.servers:
            for name, model in server.models.items():
                if name in allowed and not self._inference.models.has(name):
                    found.setdefault(name, (server, model))
        return list(found.values())

    async def generate_all(
        self, packed: PackedRequest, call: CallContext, *, requested: str, on_route: Callable[[str], None]
    ) -> Answers:
        """Start the answers to a request, here or elsewhere.

        Its model is that of `answering` for the `requested` name. `on_route` gets `local` or `remote:NAME`
        before each try. Raises what the last one raises.
        """
        if self._is_stopping:
            raise ShuttingDown("the server is shutting down")
        name = packed.head.model
        requested = requested or name
        size = 0
        if self._rules.needs_size(requested):
            size = await asyncio.to_thread(lambda: prompt_bytes(packed.unpack()))
        target = self._rules.first(requested, num_bytes=size, call=call) or self._home(name, call)
        try:
            return await self._ask(target, packed, call, on_route)
        except MlxctlError as error:
            other = self._rules.after(
                error, requested, num_bytes=size, call=call, is_remote=target.server is not None
            )
            if other is None or other == target:
                raise
            _log.warning("request %s goes to %s: %s", call.request_id, other.route, error)
            return await self._ask(other, packed, call, on_route)

    def _home(self, name: str, call: CallContext) -> Target:
        """Return where a model is."""
        is_offered = any(name in server.models for server in self.servers)
        if call.pin == "remote" or (call.pin is None and is_offered and not self._inference.models.has(name)):
            return Target(ANY_REMOTE, name)
        return Target(None, name)

    async def _ask(
        self, target: Target, packed: PackedRequest, call: CallContext, on_route: Callable[[str], None]
    ) -> Answers:
        if target.server is None:
            on_route(target.route)
            model = target.model
            if model != packed.head.model:
                model = await self._inference.models.answering(model, call)
            return await self._inference.generate_all(packed.with_head(model=model), call)
        servers = self._servers_of(target, call)
        request = await self._prepared(packed.with_head(model=target.model), call)
        rules = output_rules(target.model, call)
        prefixes = await asyncio.to_thread(prefixes_of, request) if len(servers) > 1 else ()
        failure: MlxctlError | None = None
        for server in self._in_order(servers, self._affinity.find(prefixes)):
            body = await asyncio.to_thread(server.body, request)
            if not server.breaker.take():
                failure = failure or _is_open(server)
                continue
            on_route(server.route)
            via = ", ".join((*call.via, self.server_id))
            try:
                answer = await server.start(body, target.model, call, headers={VIA_HEADER: via})
            except (CapacityError, EngineError) as error:
                _log.warning("request %s: %s", call.request_id, error)
                failure = error
                continue
            self._affinity.remember(prefixes, server.name)
            answers = Answers([answer], num_prompt_tokens=0, sampling=_sampling(request.sampling))
            return answers if rules is None else GuardedAnswers(answers, rules)
        assert failure is not None, "a target has servers"
        raise failure

    async def _prepared(self, packed: PackedRequest, call: CallContext) -> GenerationRequest:
        """Return the request as a remote may get it.

        It has passed the checks of a local one; nothing is rendered or tokenized. Raises RequestError,
        CapacityError.
        """
        model = packed.head.model
        if packed.has_documents and call.text_rules is not None and call.text_rules().applies("input", model):
            message = "guardrails cannot read the documents of a request to a remote; send their text"
            raise InvalidRequest(message, param="messages")
        screened = await screen(call.bind(packed), call, model=model, preparation=self._inference.preparation)
        fetched = await self._inference.images.fetch(screened.content, call)
        request = await asyncio.to_thread(fetched.unpack)
        if call.review is not None:
            await call.review(model, PromptFacts(tools=tuple(tool.name for tool in request.tools)))
        call.record.check_key()
        return request

    def _servers_of(self, target: Target, call: CallContext) -> list[RemoteServer]:
        """Return the remotes of a target. Raises UnknownModel, ModelUnavailable, FeatureDisabled."""
        model = target.model
        # SEC: a model that the caller may not use is unknown to it.
        if model in call.models:
            named = [each for each in self.servers if target.server in (ANY_REMOTE, each.name)]
            if found := [server for server in named if model in server.models]:
                return found
            if any(each.name == target.server or model in each.models for each in self._off):
                raise FeatureDisabled("sending requests to the cloud", "routing.cloud")
            if target.server != ANY_REMOTE:
                reason = named[0].problem or f"remote {target.server!r} does not offer it"
                raise ModelUnavailable(model, reason)
        raise UnknownModel(model, tuple(each.name for _, each in self.remote_models(call.models)))

    @staticmethod
    def _in_order(servers: Sequence[RemoteServer], cached: str | None) -> list[RemoteServer]:
        """Return the servers in the order in which to ask them."""
        return sorted(
            servers,
            key=lambda server: (
                not server.breaker.lets_through,
                server.settings.priority,
                server.name != cached,
                server.num_open,
            ),
        )


def _is_open(server: RemoteServer) -> CapacityError:
    last = server.problem or f"remote {server.name!r}: it does not work"
    return CapacityError(
        f"{last}; it failed several times and is not asked for now",
        retry_after_seconds=server.breaker.retry_after_seconds,
    )


def _sampling(options: SamplingOptions) -> SamplingParams:
    """Return what the request sets, for answers that repeat it."""
    names = {field.name for field in fields(SamplingParams)} - {"tone_curve"}
    found = {name: getattr(options, name, None) for name in names}
    return replace(SamplingParams(), **{name: value for name, value in found.items() if value is not None})

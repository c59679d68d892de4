"""One configured remote: its models, health, and requests.

Event-loop thread only.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from mlxctl.inference.call_context import CallContext
from mlxctl.inference.remote import RemoteModel
from mlxctl.inference.remote.chat_protocol import ANTHROPIC, OPENAI
from mlxctl.inference.remote.errors import REDIRECTED
from mlxctl.inference.request_log import RequestLog
from mlxctl.inference.routing.breaker import Breaker
from mlxctl.inference.routing.remote_answer import RemoteAnswer, SentContent
from mlxctl.inference.routing.rules import remote_route
from mlxctl.ir import GenerationRequest, StreamEvent
from mlxctl.ir.errors import (
    AuthenticationFailed,
    CapacityError,
    ConnectionLost,
    EngineError,
    InvalidRequest,
    MlxctlError,
    NoModelList,
    RemoteFailed,
    RequestError,
    SequenceFailed,
    ServerUnreachable,
    UnknownResource,
)
from mlxctl.state.settings import RemoteSettings

if TYPE_CHECKING:
    from mlxctl.inference.remote import RemoteGeneration

CHECK_SECONDS = 15.0
"""Time between two health checks."""
REMOTE_RESULTS = ("ok", "refused", "busy", "failed", "retried")
"""`refused` are requests that the server does not take, `retried` tries that broke off before an answer."""
# A server that closes an idle connection just then answers a second time.
_MAX_TRIES = 2
_GLOB_CHARACTERS = frozenset("*?[")

_log = logging.getLogger(__name__)


class RemoteServer:
    """A remote, with the `models` that the settings allow.

    `problem` is why the last health check failed. `results` counts requests by how they began or ended.
    """

    def __init__(
        self,
        settings: RemoteSettings,
        *,
        api_key: str | None,
        headers: Mapping[str, str],
        log: RequestLog,
    ) -> None:
        """`headers` are those of all requests. Raises SettingsError."""
        self.settings = settings
        self.name = settings.name
        self.breaker = Breaker()
        self.num_open = 0
        self.results: Counter[str] = Counter()
        self.problem: str | None = None
        exact = [glob for glob in settings.models if not _GLOB_CHARACTERS.intersection(glob)]
        self._exact = {name: RemoteModel(name=name) for name in exact}
        self.models: Mapping[str, RemoteModel] = self._exact
        self._log = log
        # PERF: a server without remotes imports no HTTP client.
        from mlxctl.inference.remote import RemoteInference

        self._inference = RemoteInference(
            settings.url,
            api_key=api_key,
            protocol=ANTHROPIC if settings.protocol == "anthropic" else OPENAI,
            headers=headers,
            silence_seconds=settings.timeout_seconds,
        )
        self._checked = asyncio.Event()
        self._checking: asyncio.Task[None] | None = None

    @property
    def route(self) -> str:
        """What header, logs and audit show of requests to it."""
        return remote_route(self.name)

    def open(self) -> None:
        """Begin to check the server's health."""
        self._checking = asyncio.create_task(self._check_for_ever(), name=f"check-remote-{self.name}")

    async def wait_checked(self) -> None:
        """Wait for the first health check."""
        await self._checked.wait()

    async def close(self) -> None:
        """End all requests to the server."""
        if self._checking is not None:
            self._checking.cancel()
        await self._inference.close()

    async def check(self) -> None:
        """Read the list of models, unless the breaker is open."""
        if not self.breaker.take():
            return
        try:
            listed = await self._inference.list_models()
        except MlxctlError as error:
            if self._exact and isinstance(error, UnknownResource | NoModelList):
                # Some servers have no list, or a broken one.
                self._passed(self._exact)
                return
            self.breaker.fail()
            self._failed(self.translate(error))
        except BaseException:
            self.breaker.give_up()
            raise
        else:
            found = {model.name: model for model in listed if self._offers(model.name) and model.can_chat}
            self._passed(self._exact | found)

    async def start(
        self, body: bytes, model: str, call: CallContext, *, headers: Mapping[str, str]
    ) -> RemoteAnswer:
        """Send a request and wait for the first events of its answer.

        The caller has taken a place of the breaker. Raises the caller's error for what goes wrong.
        """
        self.num_open += 1
        entry = self._log.begin(model, call, num_prompt_tokens=0)
        entry.route = self.route
        try:
            generation, first = await self._first_events(body, headers)
        except MlxctlError as failure:
            error = self.translate(failure)
            self._ended(error)
            entry.end("failed")
            raise error from None
        except BaseException:
            self.num_open -= 1
            self.breaker.give_up()
            entry.end("stopped")
            raise
        if call.record.keeps_content:
            entry.content = SentContent(body)
        return RemoteAnswer(generation, first, entry, translate=self.translate, on_end=self._ended)

    def body(self, request: GenerationRequest) -> bytes:
        """Return the body of a request. Any thread. Raises InvalidRequest."""
        return self._inference.body(request)

    def translate(self, error: MlxctlError) -> MlxctlError:
        """Return the caller's error for one of the server.

        It names the server, not its address.
        """
        match error:
            case ServerUnreachable():
                return RemoteFailed(self.name, f"no usable answer: {error.reason}")
            case AuthenticationFailed():
                # SEC: the server's message may repeat the key.
                variable = self.settings.api_key_env
                remedy = f"check the key in {variable}" if variable else "set api_key_env for it"
                return RemoteFailed(self.name, f"it does not accept the API key; {remedy}")
            case UnknownResource() | ConnectionLost() | SequenceFailed():
                return RemoteFailed(self.name, str(error))
            case InvalidRequest() if error.code == REDIRECTED:
                return RemoteFailed(self.name, str(error))
            case CapacityError():
                seconds = error.retry_after_seconds
                return CapacityError(f"remote {self.name!r}: {error}", retry_after_seconds=seconds)
            case InvalidRequest():
                return InvalidRequest(f"remote {self.name!r}: {error}", param=error.param, code=error.code)
            case _:
                return error

    async def _first_events(
        self, body: bytes, headers: Mapping[str, str]
    ) -> "tuple[RemoteGeneration, list[StreamEvent]]":
        """Return an answer that has begun; tries again while nothing has come."""
        for number in range(_MAX_TRIES):
            generation: RemoteGeneration | None = None
            try:
                generation = await self._inference.send(body, headers=headers)
                return generation, await anext(generation)
            except BaseException as error:
                if generation is not None:
                    generation.cancel()
                if not _is_dropped(error) or number + 1 == _MAX_TRIES:
                    raise
                self.results["retried"] += 1
        raise AssertionError

    def _ended(self, error: MlxctlError | None) -> None:
        self.num_open -= 1
        if error is None:
            self.results["ok"] += 1
            self.breaker.succeed()
        elif isinstance(error, RequestError):
            # The server works; the request does not.
            self.results["refused"] += 1
            self.breaker.succeed()
        elif isinstance(error, EngineError):
            self.results["failed"] += 1
            self.breaker.fail()
        else:
            self.results["busy"] += 1
            self.breaker.give_up()

    def _offers(self, name: str) -> bool:
        globs = self.settings.models
        return not globs or any(fnmatchcase(name, glob) for glob in globs)

    def _passed(self, models: Mapping[str, RemoteModel]) -> None:
        self.models = models
        if self.breaker.state == "half_open":
            self.breaker.succeed()
        if self.problem is not None:
            _log.info("remote %r answers again", self.name)
        self.problem = None

    def _failed(self, error: MlxctlError) -> None:
        if self.problem != str(error):
            _log.warning("%s", error)
        self.problem = str(error)

    async def _check_for_ever(self) -> None:
        while True:
            try:
                await self.check()
            except Exception:
                _log.exception("the health check of remote %r failed", self.name)
            self._checked.set()
            await asyncio.sleep(CHECK_SECONDS)


def _is_dropped(error: BaseException) -> bool:
    """Whether a connection broke off without an answer."""
    return isinstance(error, ConnectionLost) or (isinstance(error, ServerUnreachable) and error.was_dropped)

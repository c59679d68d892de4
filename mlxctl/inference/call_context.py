"""Who makes a request, with which rights, and until when."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

from mlxctl.inference.preparation import PackedRequest
from mlxctl.inference.request_record import RequestRecord
from mlxctl.inference.text_rules import TextRules
from mlxctl.ir.allowed_models import EVERY_MODEL, AllowedModels
from mlxctl.ir.cache_namespace import cache_namespace
from mlxctl.ir.errors import DeadlineExceeded
from mlxctl.ir.policy import SCOPES, Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFacts:
    """A prepared prompt, without its content; None where it is not known.

    `sha256` is the digest of its text as the model reads it.
    """

    num_tokens: int | None = None
    tools: tuple[str, ...] = ()
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallContext:
    """The caller of one request and its rights. Event-loop thread only.

    It is made once, by the middleware, and passed as an argument to all that acts for the request. `owner`
    has the caller's requests, responses and agents: the key's name, else the client's address; "" is a caller
    without a valid key, on an open route. Requests with one `fairness_key` have one share of rows, queue,
    bodies and downloads. The request may take `timeout_seconds`, queueing included: until `ends_at` in the
    event loop's time. `text_rules` returns the rules in force for the texts that a model reads and writes.
    `pin` keeps the request here or at remotes; `via` are the servers that it has passed.
    `review` checks model and prompt before they reach the engine. `reserve` counts bytes that the request
    holds besides its body. `record` gets what happens.
    """

    caller: Caller
    owner: str
    fairness_key: str
    timeout_seconds: float
    ends_at: float
    record: RequestRecord
    text_rules: Callable[[], TextRules] | None = None
    review: Callable[[str, PromptFacts], Awaitable[None]] | None = None
    reserve: Callable[[int], None] | None = None
    pin: Literal["local", "remote"] | None = None
    via: tuple[str, ...] = ()

    @property
    def models(self) -> AllowedModels:
        """The models that the caller may use."""
        return self.caller.models

    @property
    def request_id(self) -> str:
        """The id of the request in answers and log lines."""
        return self.record.request_id

    def check_deadline(self) -> None:
        """Raise DeadlineExceeded if the deadline has passed."""
        if asyncio.get_running_loop().time() >= self.ends_at:
            self._mark_timed_out()
            raise DeadlineExceeded(f"the request exceeded the time limit of {self.timeout_seconds:g} seconds")

    @asynccontextmanager
    async def within_deadline(self) -> AsyncIterator[None]:
        """Cancel the enclosed code at the deadline and raise DeadlineExceeded."""
        # The timer runs before the cancelled code ends its generations.
        timer = asyncio.get_running_loop().call_at(self.ends_at, self._mark_timed_out)
        try:
            async with asyncio.timeout_at(self.ends_at):
                yield
        except TimeoutError:
            self.check_deadline()
            raise
        finally:
            timer.cancel()

    def _mark_timed_out(self) -> None:
        self.record.mark_stopped("timed_out")

    async def check(self, model: str) -> None:
        """Let the policy server, if there is one, decide about the model.

        Raises PolicyDenied, PolicyUnavailable.
        """
        if self.review is not None:
            await self.review(model, PromptFacts())

    def bind(self, packed: PackedRequest) -> PackedRequest:
        """Return the request with the caller's cache namespace and priority.

        The key limits how urgent the priority may be.
        """
        head, caller = packed.head, self.caller
        return packed.with_head(
            priority=head.priority if caller.priority is None else max(head.priority or 0, caller.priority),
            cache=replace(head.cache, namespace=cache_namespace(caller.cache_scope, head.cache.salt)),
        )


def operator_call() -> CallContext:
    """Return the context of the operator, who may use every model."""
    record = RequestRecord(request_id="")
    return CallContext(
        caller=Caller(name="", scopes=frozenset(SCOPES), models=EVERY_MODEL, sees_others=True),
        owner="",
        fairness_key="",
        timeout_seconds=math.inf,
        ends_at=math.inf,
        record=record,
    )

"""Makes the CallContext of each request."""

import asyncio
import re

from falcon.asgi import Request

from mlxctl.inference.call_context import CallContext
from mlxctl.inference.routing.router import VIA_HEADER
from mlxctl.ir.errors import LoopDetected
from mlxctl.ir.policy import Caller
from mlxctl.protocols import ROUTE_HEADER, header_route
from mlxctl.server.http.deadline import timeout_seconds
from mlxctl.server.observe.http_record import HttpRecord
from mlxctl.server.policy import PolicyService
from mlxctl.server.policy.caller import fairness_key
from mlxctl.server.policy.decisions import PolicyReview
from mlxctl.state.settings import ServerSettings

_ID = re.compile(r"[0-9a-f]{16}")
_MAX_VIA_CHARS = 512


class Calls:
    """The last middleware: `request.context.call` is all that resources know of the caller."""

    def __init__(self, policy: PolicyService, settings: ServerSettings, *, server_id: str) -> None:
        self._policy = policy
        self._settings = settings
        self._server_id = server_id

    async def process_resource(self, request: Request, *_: object) -> None:
        """Make the context of an authenticated request with a route.

        Raises LoopDetected for a request that this server has sent, and InvalidRequest.
        """
        via = tuple(_ID.findall((request.get_header(VIA_HEADER) or "")[:_MAX_VIA_CHARS]))
        if self._server_id in via:
            raise LoopDetected(
                "this server has sent the request itself: one of its remotes is this server, or leads back "
                "to it; remove that one from [[remotes]]"
            )
        context, policy = request.context, self._policy
        caller: Caller = context.identity
        record: HttpRecord = context.record
        seconds = timeout_seconds(request.uri_template or "", self._settings)
        context.call = CallContext(
            caller=caller,
            owner=context.owner,
            fairness_key=fairness_key(request, caller),
            timeout_seconds=seconds,
            ends_at=asyncio.get_running_loop().time() + seconds,
            record=record,
            text_rules=lambda: policy.guardrails,
            review=None
            if policy.opa is None
            else PolicyReview(policy=policy.opa, caller=caller, record=record),
            reserve=context.body_account.add,
            pin=header_route(request.get_header(ROUTE_HEADER)),
            via=via,
        )

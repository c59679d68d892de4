"""Makes the CallContext of each request."""

from falcon.asgi import Request

from mlxctl.inference.call_context import CallContext
from mlxctl.inference.deadline import Deadline
from mlxctl.ir.policy import Caller
from mlxctl.server.http.deadline import timeout_seconds
from mlxctl.server.observe.http_record import HttpRecord
from mlxctl.server.policy import PolicyService
from mlxctl.server.policy.caller import fairness_key
from mlxctl.server.policy.decisions import PolicyReview
from mlxctl.state.settings import ServerSettings


class Calls:
    """The last middleware: `request.context.call` is all that resources know of the caller."""

    def __init__(self, policy: PolicyService, settings: ServerSettings) -> None:
        self._policy = policy
        self._settings = settings

    async def process_resource(self, request: Request, *_: object) -> None:
        """Make the context of an authenticated request with a route."""
        context, policy = request.context, self._policy
        caller: Caller = context.identity
        record: HttpRecord = context.record
        context.call = CallContext(
            caller=caller,
            owner=context.owner,
            fairness_key=fairness_key(request, caller),
            deadline=Deadline(timeout_seconds(request.uri_template or "", self._settings), record),
            record=record,
            text_rules=lambda: policy.guardrails,
            review=None
            if policy.opa is None
            else PolicyReview(policy=policy.opa, caller=caller, record=record),
            reserve=context.body_account.add,
        )

"""Decisions of a policy server about requests that name a model."""

from falcon.asgi import Request

from mlxctl.inference.request_context import PromptFacts, RequestContext
from mlxctl.ir.errors import PolicyDenied
from mlxctl.ir.timed_phases import timed
from mlxctl.server.policy import Caller
from mlxctl.server.policy.backend import RequestFacts
from mlxctl.server.policy.service import PolicyService

NO_PROMPT = PromptFacts()


async def decide(request: Request, model: str, prompt: PromptFacts = NO_PROMPT) -> None:
    """Ask the policy server, if there is one. Raises PolicyDenied, PolicyUnavailable."""
    policy: PolicyService = request.context.policy
    if policy.opa is None:
        return
    identity: Caller = request.context.identity
    record: RequestContext = request.context.record
    facts = RequestFacts(
        caller=identity.name,
        scopes=identity.scopes,
        models=identity.models.globs or (),
        model=model,
        route=record.route,
        protocol=record.protocol,
        num_tokens=prompt.num_tokens,
        tools=prompt.tools,
        prompt_sha256=prompt.sha256,
    )
    with timed("policy"):
        decision = await policy.opa.decide(facts)
    if not decision.allowed:
        raise PolicyDenied(decision.reason)

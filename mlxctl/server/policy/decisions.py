"""Decisions of a policy server about requests that name a model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlxctl.inference.call_context import PromptFacts
from mlxctl.ir.errors import PolicyDenied
from mlxctl.ir.policy import Caller
from mlxctl.ir.timed_phases import timed
from mlxctl.server.observe.http_record import HttpRecord
from mlxctl.server.policy.backend import RequestFacts

if TYPE_CHECKING:
    from mlxctl.server.policy.opa import OpaPolicy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicyReview:
    """Lets a policy server decide about one request."""

    policy: "OpaPolicy"
    caller: Caller
    record: HttpRecord

    async def __call__(self, model: str, prompt: PromptFacts) -> None:
        """Ask the policy server. Raises PolicyDenied, PolicyUnavailable."""
        facts = RequestFacts(
            caller=self.caller.name,
            scopes=self.caller.scopes,
            models=self.caller.models.globs or (),
            model=model,
            route=self.record.route,
            protocol=self.record.protocol,
            num_tokens=prompt.num_tokens,
            tools=prompt.tools,
            prompt_sha256=prompt.sha256,
        )
        with timed("policy"):
            decision = await self.policy.decide(facts, headers=self.record.trace_headers)
        if not decision.allowed:
            raise PolicyDenied(decision.reason)

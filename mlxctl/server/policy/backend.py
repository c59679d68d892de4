"""Interface of a policy backend: keys, limits, guardrails and decisions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mlxctl.ir.policy import ApiKey, GuardrailRules, Limits, Scope, is_model_allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """What a decision is made from.

    `caller` is the key's id, empty without a key; `models` are the globs of its allowed models. `scope` is
    what the route needs. `num_tokens` of the prompt and `prompt_sha256` are None where they are not known.
    """

    caller: str
    scopes: frozenset[Scope]
    models: tuple[str, ...] = ()
    scope: Scope | None = None
    model: str | None = None
    route: str = ""
    protocol: str | None = None
    num_tokens: int | None = None
    tools: tuple[str, ...] = ()
    prompt_sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether a request is allowed; `reason` is for the caller."""

    allowed: bool
    reason: str = field(default="", compare=False)


ALLOWED = Decision(allowed=True)


class PolicyBackend(Protocol):
    """Where keys, limits and guardrails are kept, and who decides.

    Event-loop thread only.

    Methods that change something raise Conflict where the backend is read-only, and StoreUnavailable.
    """

    def find_key(self, sha256: str) -> ApiKey | None:
        """Return the key with this digest, also a revoked one.

        The comparison takes constant time.
        """

    def all_keys(self) -> Sequence[ApiKey]:
        """Return all keys, in order of creation."""

    def put_key(self, key: ApiKey, /) -> None:
        """Add a key, or replace the one with its id."""

    def default_limits(self) -> Limits:
        """Return the default limits of keys."""

    def set_default_limits(self, limits: Limits, /) -> None:
        """Replace the default limits."""

    def guardrails(self) -> GuardrailRules:
        """Return the stored rules of the guardrails."""

    def set_guardrails(self, rules: GuardrailRules, /) -> None:
        """Replace the stored rules of the guardrails."""

    async def decide(self, facts: RequestFacts) -> Decision:
        """Decide about a request. Raises PolicyUnavailable where the backend fails closed."""


def decide_locally(facts: RequestFacts) -> Decision:
    """Decide by the scopes and the allowed models of the key."""
    if facts.scope is not None and facts.scope not in facts.scopes:
        return Decision(allowed=False, reason=f"the key lacks the scope {facts.scope!r}")
    if facts.model is not None and not is_model_allowed(facts.models, facts.model):
        return Decision(allowed=False, reason=f"the key may not use the model {facts.model!r}")
    return ALLOWED

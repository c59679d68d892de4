"""Rate limits of generations over HTTP: admission, settlement and the vendors' headers."""

import math
from datetime import UTC, datetime, timedelta
from typing import Literal

from falcon.asgi import Request, Response

from mlxctl.inference.request_record import RequestRecord
from mlxctl.ir.errors import RateLimited
from mlxctl.server.http.disconnect import call_at_end
from mlxctl.server.policy import PolicyService, RateLimitState, Reservation
from mlxctl.server.policy.caller import call_of

Vendor = Literal["openai", "anthropic"]


def admit(request: Request, response: Response, model: str, *, max_tokens: int = 0) -> None:
    """Count a request against the limits of its caller.

    `model` is the model's own name, not an alias. Sets the headers of the limits; tokens count when the
    request ends. Raises RateLimited.
    """
    policy: PolicyService = request.context.policy
    call = call_of(request)
    vendor: Vendor = "anthropic" if call.record.protocol == "anthropic" else "openai"
    try:
        reservation = policy.admit(call.caller, call.owner, model, max_tokens=max_tokens)
    except RateLimited as error:
        if isinstance(error.state, RateLimitState):
            response.set_headers(limit_headers(error.state, vendor))
        raise
    if reservation is not None:
        response.set_headers(limit_headers(reservation.state, vendor))
        call_at_end(request.scope, lambda: _settle(reservation, call.record))


def limit_headers(state: RateLimitState, vendor: Vendor) -> dict[str, str]:
    """Return the rate-limit headers in OpenAI's or Anthropic's names."""
    headers: dict[str, str] = {}
    for name, limit, remaining, seconds in (
        ("requests", state.limit_requests, state.remaining_requests, state.reset_requests_seconds),
        ("tokens", state.limit_tokens, state.remaining_tokens, state.reset_tokens_seconds),
    ):
        if limit is None:
            continue
        if vendor == "anthropic":
            at = datetime.now(UTC) + timedelta(seconds=math.ceil(seconds))
            headers |= {
                f"anthropic-ratelimit-{name}-limit": str(limit),
                f"anthropic-ratelimit-{name}-remaining": str(remaining),
                f"anthropic-ratelimit-{name}-reset": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        else:
            headers |= {
                f"x-ratelimit-limit-{name}": str(limit),
                f"x-ratelimit-remaining-{name}": str(remaining),
                f"x-ratelimit-reset-{name}": f"{seconds:.3f}s",
            }
    return headers


def _settle(reservation: Reservation, record: RequestRecord) -> None:
    """Count computed prompt tokens and generated tokens."""
    computed = sum(max(0, entry.num_prefilled - entry.num_cached) for entry in record.entries)
    reservation.settle(computed + sum(entry.num_generated for entry in record.entries))

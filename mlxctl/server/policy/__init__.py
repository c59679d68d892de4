"""Authentication, scopes, rate limits and guardrails.

Runs on the front's event loop; guardrails of prompts run in preparation processes. Knows no HTTP framework
and no wire format.
"""

from mlxctl.ir.policy import Caller
from mlxctl.server.policy.rate_limits import RateLimiter, RateLimitState, Reservation
from mlxctl.server.policy.service import PolicyService
from mlxctl.server.policy.settings_backend import SettingsPolicy

__all__ = [
    "Caller",
    "PolicyService",
    "RateLimitState",
    "RateLimiter",
    "Reservation",
    "SettingsPolicy",
]

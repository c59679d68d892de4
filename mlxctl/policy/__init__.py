"""Authentication, scopes, rate limits and guardrails.

Runs on the front's event loop; guardrails of prompts run in preparation processes. Knows no HTTP framework
and no wire format.
"""

from mlxctl.policy.authentication import Caller
from mlxctl.policy.cache_namespace import cache_namespace
from mlxctl.policy.rate_limits import RateLimiter, RateLimitState, Reservation
from mlxctl.policy.service import PolicyService
from mlxctl.policy.settings_backend import SettingsPolicy

__all__ = [
    "Caller",
    "PolicyService",
    "RateLimitState",
    "RateLimiter",
    "Reservation",
    "SettingsPolicy",
    "cache_namespace",
]

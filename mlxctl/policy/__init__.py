"""Who may do what. Decisions only: knows no HTTP framework and no wire format."""

from mlxctl.policy.authentication import Caller, KeyCheck

__all__ = ["Caller", "KeyCheck"]

"""Who may do what. Decisions only: knows no HTTP framework and no wire format."""

from mlxctl.policy.authentication import KeyCheck

__all__ = ["KeyCheck"]

"""Persistent data: SQLite files, the audit log, and overrides in TOML.

Methods block on the disk: on the front they are called in worker threads. Knows no wire formats and no
models.
"""

from typing import TYPE_CHECKING

from mlxctl import on_demand

if TYPE_CHECKING:
    from mlxctl.stores.agent_stores import AgentStores
    from mlxctl.stores.agents import AgentStore
    from mlxctl.stores.capabilities import CapabilityStore
    from mlxctl.stores.overrides import (
        Override,
        apply_overrides,
        read_overrides,
        to_capabilities,
        write_overrides,
    )
    from mlxctl.stores.probe_findings import QUESTIONS, Exchange, Finding, ProbeRecord
    from mlxctl.stores.responses import ResponseStore, StoreFacts
    from mlxctl.stores.sessions import Session, SessionStore, SessionSummary
    from mlxctl.stores.speeds import MeasuredSpeed, SpeedStore

__all__ = [
    "QUESTIONS",
    "AgentStore",
    "AgentStores",
    "CapabilityStore",
    "Exchange",
    "Finding",
    "MeasuredSpeed",
    "Override",
    "ProbeRecord",
    "ResponseStore",
    "Session",
    "SessionStore",
    "SessionSummary",
    "SpeedStore",
    "StoreFacts",
    "apply_overrides",
    "read_overrides",
    "to_capabilities",
    "write_overrides",
]

__getattr__ = on_demand(
    __name__,
    __all__,
    (
        # PERF: a chat needs it before the first frame.
        "sessions",
        "agents",
        "agent_stores",
        "capabilities",
        "probe_findings",
        "overrides",
        "responses",
        "speeds",
    ),
)

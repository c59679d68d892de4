"""Persistent data: SQLite files, the audit log, and overrides in TOML.

Methods block on the disk: on the front they are called in worker threads. Knows no wire formats and no
models.
"""

from typing import TYPE_CHECKING

from mlxctl import on_demand

if TYPE_CHECKING:
    from mlxctl.state.stores.agent_stores import AgentStores
    from mlxctl.state.stores.agents import AgentStore
    from mlxctl.state.stores.capabilities import CapabilityStore
    from mlxctl.state.stores.overrides import (
        Override,
        apply_overrides,
        read_overrides,
        to_capabilities,
        write_overrides,
    )
    from mlxctl.state.stores.probe_findings import QUESTIONS, Exchange, Finding, ProbeRecord
    from mlxctl.state.stores.responses import ResponseStore, StoreFacts
    from mlxctl.state.stores.sessions import Session, SessionStore, SessionSummary
    from mlxctl.state.stores.speeds import MeasuredSpeed, SpeedStore

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

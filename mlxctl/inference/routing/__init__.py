"""Which server answers a request: this machine, or a remote.

Event-loop thread only.
"""

from mlxctl.inference.routing.remote_server import RemoteServer
from mlxctl.inference.routing.router import Router
from mlxctl.inference.routing.setup import create_router

__all__ = ["RemoteServer", "Router", "create_router"]

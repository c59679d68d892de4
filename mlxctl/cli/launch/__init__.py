"""Starts coding agents against a local server.

By environment and arguments alone. Runs in the process of the command line, which the client then replaces.
"""

from mlxctl.cli.launch.background_server import FoundServer, find_or_start
from mlxctl.cli.launch.clients import CLIENTS, Client, LaunchPlan
from mlxctl.cli.launch.launched_server import find_launched_server, stop_launched_server
from mlxctl.cli.launch.model_choice import (
    check_local_model,
    choose_model,
    library_candidates,
    served_names,
)

__all__ = [
    "CLIENTS",
    "Client",
    "FoundServer",
    "LaunchPlan",
    "check_local_model",
    "choose_model",
    "find_launched_server",
    "find_or_start",
    "library_candidates",
    "served_names",
    "stop_launched_server",
]

"""`mlxctl serve` in the background, started at login.

launchd on macOS, systemd on Linux. Runs in the process of the command line.
"""

from mlxctl.cli.service.definition import ServiceDefinition
from mlxctl.cli.service.manager import Launchd, ServiceManager, ServiceStatus, Systemd, system_manager

__all__ = [
    "Launchd",
    "ServiceDefinition",
    "ServiceManager",
    "ServiceStatus",
    "Systemd",
    "system_manager",
]

"""The doctor: looks at machine, packages, MLX, memory, disks and port, and says what to do. Knows no model and starts no engine."""

import os
from collections.abc import Iterator

from mlxctl import locations
from mlxctl.doctor.backend import check_backend, check_blas
from mlxctl.doctor.finding import Finding
from mlxctl.doctor.memory import check_memory, check_wired_limit
from mlxctl.doctor.packages import check_packages
from mlxctl.doctor.places import check_models, check_port, check_settings, check_state
from mlxctl.doctor.platform import check_files, check_platform, check_python
from mlxctl.errors import SettingsError
from mlxctl.models import Library, this_machine
from mlxctl.settings import Settings, resolve

__all__ = ["Finding", "examine"]


def examine() -> Iterator[Finding]:
    """Look at one thing after the other, each as it is asked for; never raises for what is wrong with this machine."""
    is_mac = locations.is_apple_silicon()
    yield check_platform()
    yield check_python()
    yield check_packages()
    yield check_backend(wants_metal=is_mac)
    chosen = _settings()
    yield check_settings(chosen)
    settings = Settings() if isinstance(chosen, SettingsError) else chosen
    limit = settings.engine.memory_limit_bytes
    machine = this_machine(memory_limit_bytes=limit)
    yield check_memory(machine, limit_bytes=limit)
    yield check_wired_limit(machine) if is_mac else check_blas()
    yield check_files()
    yield check_state()
    yield check_models(Library(settings.library))
    yield check_port(settings)


def _settings() -> Settings | SettingsError:
    try:
        return resolve(environment=os.environ)
    except SettingsError as error:
        return error

"""Installation checks: machine, packages, MLX, memory, disks, port, generation.

Runs in the process of the command; MLX in child processes.
"""

import os
from collections.abc import Iterator

from mlxctl.cli.doctor.backend import check_backend, check_blas
from mlxctl.cli.doctor.check_result import CheckResult
from mlxctl.cli.doctor.install_commands import reinstall_command
from mlxctl.cli.doctor.packages import check_packages
from mlxctl.cli.doctor.platform import check_files, check_platform, check_python
from mlxctl.state import locations

__all__ = ["CheckResult", "examine"]


def run_checks() -> Iterator[CheckResult]:
    """Yield one result after the other, each computed on demand.

    Never raises for a problem of the machine.
    """
    is_mac = locations.is_apple_silicon()
    yield check_platform()
    yield check_python()
    yield check_packages()
    yield check_backend(wants_metal=is_mac)
    yield check_files()
    if not is_mac:
        yield check_blas()
    try:
        yield from _run_own_checks(is_mac=is_mac)
    except ImportError as error:
        yield CheckResult(
            name="imports",
            verdict="broken",
            facts=f"a package is incomplete: {error}",
            remedy=reinstall_command(),
        )


def _run_own_checks(*, is_mac: bool) -> Iterator[CheckResult]:
    """Run the checks that import further mlxctl modules.

    They are imported here, so that the checks above still report in a broken installation.
    """
    from mlxctl.cli.doctor.directories import (
        check_access,
        check_models,
        check_port,
        check_prefix_cache,
        check_settings,
        check_state,
        check_temporary_files,
    )
    from mlxctl.cli.doctor.generation import check_answer
    from mlxctl.cli.doctor.memory import check_memory, check_wired_limit
    from mlxctl.ir.errors import SettingsError
    from mlxctl.library import Library, this_machine
    from mlxctl.state.settings import Settings, resolve

    chosen: Settings | SettingsError
    try:
        chosen = resolve(environment=os.environ)
    except SettingsError as error:
        chosen = error
    yield check_settings(chosen)
    settings = Settings() if isinstance(chosen, SettingsError) else chosen
    limit = settings.engine.memory_limit_bytes
    machine = this_machine(memory_limit_bytes=limit)
    yield check_memory(machine, limit_bytes=limit)
    if is_mac:
        yield check_wired_limit(machine)
    yield check_state()
    yield check_prefix_cache(settings.engine.cache_dir)
    yield check_temporary_files()
    yield check_models(Library(settings.library))
    yield check_port(settings)
    yield check_access(settings)
    yield check_answer()

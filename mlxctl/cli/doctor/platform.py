"""Checks of the machine and its Python."""

import platform
import resource
import sys

from mlxctl.cli.doctor.check_result import CheckResult
from mlxctl.state import locations

_MIN_MACOS = 14
# Every client needs a connection, and the libraries open files as well.
_MIN_OPEN_FILES = 1024


def check_platform() -> CheckResult:
    translated = locations.is_translated()
    return assess_platform(sys.platform, platform.machine(), platform.mac_ver()[0], is_translated=translated)


def assess_platform(system: str, machine: str, macos: str, *, is_translated: bool) -> CheckResult:
    """Report whether MLX runs on this platform."""
    facts = f"macOS {macos} on {machine}" if system == "darwin" else f"{system.capitalize()} on {machine}"
    verdict = CheckResult(name="platform", verdict="ok", facts=facts)
    if is_translated:
        remedy = "install an arm64 Python and create a new environment"
        return CheckResult(
            name="platform",
            verdict="broken",
            facts=f"{facts}: this Python is for Intel and runs translated",
            remedy=remedy,
        )
    if system == "darwin" and machine != "arm64":
        return CheckResult(
            name="platform", verdict="broken", facts=facts, remedy="MLX needs a Mac with Apple silicon"
        )
    if system == "darwin" and int(macos.partition(".")[0] or 0) < _MIN_MACOS:
        return CheckResult(
            name="platform", verdict="broken", facts=facts, remedy=f"MLX needs macOS {_MIN_MACOS} or newer"
        )
    if system == "linux":
        remedy = "suitable for tests; use a Mac with Apple silicon for speed"
        return CheckResult(
            name="platform", verdict="advice", facts=f"{facts}: MLX computes on the CPU here", remedy=remedy
        )
    if system != "darwin":
        return CheckResult(
            name="platform", verdict="broken", facts=facts, remedy="mlxctl runs on macOS and Linux"
        )
    return verdict


def check_python() -> CheckResult:
    return CheckResult(name="python", verdict="ok", facts=f"{platform.python_version()} at {sys.executable}")


def check_files() -> CheckResult:
    """Check the limit of open files and connections."""
    return assess_file_limit(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def assess_file_limit(limit: int) -> CheckResult:
    is_enough = limit == resource.RLIM_INFINITY or limit >= _MIN_OPEN_FILES
    facts = (
        "no limit on open files" if limit == resource.RLIM_INFINITY else f"{limit} files may be open at once"
    )
    if is_enough:
        return CheckResult(name="open files", verdict="ok", facts=facts)
    return CheckResult(
        name="open files",
        verdict="advice",
        facts=facts,
        remedy="for many clients: `ulimit -n 4096` before `mlxctl serve`",
    )

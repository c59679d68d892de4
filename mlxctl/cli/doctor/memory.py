"""Check memory limits: the model's share, and macOS's wired limit."""

import subprocess

from mlxctl.cli.doctor.check_result import CheckResult
from mlxctl.ir.errors import describe_bytes
from mlxctl.library.machine import GIB, Machine

_SYSCTL = "iogpu.wired_limit_mb"
# Memory for macOS and other programs; with less, a Mac swaps or freezes.
_KEEP_BYTES = 6 * GIB
_KEEP_SHARE = 0.15
_MIB = 1024**2
_ASK_SECONDS = 5.0


def check_memory(machine: Machine, *, limit_bytes: int | None) -> CheckResult:
    """Report the memory for models; `limit_bytes` is the configured limit."""
    usable = describe_bytes(machine.usable_bytes)
    facts = f"a machine of {machine.memory_bytes / GIB:.0f} GB; models may take {usable}"
    if limit_bytes is not None and limit_bytes > machine.memory_bytes:
        remedy = "lower engine.memory_limit_bytes in the settings"
        return CheckResult(
            name="memory", verdict="broken", facts=f"{facts}: the limit is more than there is", remedy=remedy
        )
    return CheckResult(name="memory", verdict="ok", facts=facts)


def check_wired_limit(machine: Machine) -> CheckResult:
    """Check the limit of wired GPU memory. Apple silicon only."""
    return assess_wired_limit(machine.memory_bytes, _read_wired_limit())


def assess_wired_limit(memory_bytes: int, limit_mib: int | None) -> CheckResult:
    """Return whether the wired memory limit suits this machine.

    A limit of 0 is the default of macOS; None means a system without this setting.
    """
    sensible = (memory_bytes - max(_KEEP_BYTES, int(memory_bytes * _KEEP_SHARE))) // _MIB
    if limit_mib is None:
        return CheckResult(name="wired limit", verdict="ok", facts=f"this macOS has no {_SYSCTL}")
    if limit_mib == 0:
        more = (
            f"; for a model that just does not fit: `sudo sysctl {_SYSCTL}={sensible}`, until the next start"
        )
        return CheckResult(
            name="wired limit", verdict="ok", facts=f"chosen by macOS{more if sensible > 0 else ''}"
        )
    facts = f"set by hand to {describe_bytes(limit_mib * _MIB)}, on a machine of {memory_bytes / GIB:.0f} GB"
    if limit_mib > sensible:
        command = f"sudo sysctl {_SYSCTL}={max(sensible, 0)}"
        remedy = f"this leaves too little for the system, which may halt: `{command}` (0 lets macOS choose)"
        return CheckResult(name="wired limit", verdict="advice", facts=facts, remedy=remedy)
    return CheckResult(name="wired limit", verdict="ok", facts=facts)


def _read_wired_limit() -> int | None:
    command = ["/usr/sbin/sysctl", "-n", _SYSCTL]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_SECONDS, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return int(done.stdout) if done.stdout.strip().isdigit() else None

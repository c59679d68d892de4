"""Check MLX in a child process, which may abort."""

import ctypes.util
import json
import subprocess
import sys

from mlxctl.cli.doctor.check_result import CheckResult
from mlxctl.cli.doctor.install_commands import install_command
from mlxctl.state.installed import version_of

_TRY_SECONDS = 60.0
# A product with a known result, on the default device.
_PROGRAM = """
import json
import mlx.core as mx
matrix = mx.full((4, 4), 3.0)
total = (matrix @ matrix)[0, 0].item()
device = str(mx.default_device())
metal = mx.metal.is_available()
print(json.dumps({"version": mx.__version__, "device": device, "metal": metal, "total": total}))
"""
_TOTAL = 36.0
_PACKAGES = ("mlx", "mlx-metal", "mlx-cpu")


def check_backend(*, wants_metal: bool) -> CheckResult:
    """Compute a small matrix with MLX."""
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", _PROGRAM],
            capture_output=True,
            text=True,
            timeout=_TRY_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        facts = f"MLX did not compute a small matrix within {_TRY_SECONDS:g} s"
        return CheckResult(
            name="mlx",
            verdict="broken",
            facts=facts,
            remedy="check whether another program uses the GPU; restart the Mac",
        )
    return assess_backend(done.returncode, done.stdout, done.stderr, wants_metal=wants_metal)


def assess_backend(exit_code: int, output: str, errors: str, *, wants_metal: bool) -> CheckResult:
    """Interpret the output of the child process."""
    if exit_code:
        lines = errors.strip().splitlines()
        facts = f"MLX cannot be used: {lines[-1] if lines else f'its process ended with {exit_code}'}"
        return CheckResult(
            name="mlx",
            verdict="broken",
            facts=facts,
            remedy=install_command("--force-reinstall", "--no-deps", *_installed_backends()),
        )
    found = json.loads(output.strip().splitlines()[-1])
    facts = f"{found['version']} on {found['device']}" + (" with Metal" if found["metal"] else "")
    if found["total"] != _TOTAL:
        facts += f" computes {found['total']:g} where {_TOTAL:g} is right"
        return CheckResult(name="mlx", verdict="broken", facts=facts, remedy="install another version of mlx")
    if wants_metal and not found["metal"]:
        return CheckResult(
            name="mlx",
            verdict="broken",
            facts=f"{facts}: no Metal",
            remedy="run it in a session with access to the GPU",
        )
    return CheckResult(name="mlx", verdict="ok", facts=facts)


def _installed_backends() -> list[str]:
    """Return the packages of MLX with their versions, as pip takes them."""
    versions = {name: version_of(name) for name in _PACKAGES}
    return [f"{name}=={version}" for name, version in versions.items() if version is not None]


def check_blas() -> CheckResult:
    """Check for OpenBLAS, which the engine prefers. Linux only."""
    return assess_blas(ctypes.util.find_library("openblas"))


def assess_blas(library: str | None) -> CheckResult:
    if library is not None:
        return CheckResult(name="blas", verdict="ok", facts=f"OpenBLAS ({library})")
    facts = "no OpenBLAS: MLX uses its slower bundled BLAS"
    return CheckResult(
        name="blas",
        verdict="advice",
        facts=facts,
        remedy="`apt install libopenblas0`, or your system's package",
    )

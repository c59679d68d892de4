"""Checks of settings, directories and the server's port."""

import os
import shlex
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import httpx

from mlxctl.cli.doctor.check_result import CheckResult
from mlxctl.cli.launch.background_server import default_url
from mlxctl.inference.remote.address import ServerAddress
from mlxctl.ir.errors import MlxctlError, SettingsError
from mlxctl.ir.host_names import is_loopback
from mlxctl.library import Library
from mlxctl.server.http.address import claim_address
from mlxctl.server.policy.access import check_keys, describe_access
from mlxctl.server.wiring.policy import policy_service
from mlxctl.state import locations
from mlxctl.state.settings import Settings, settings_file

_GREETING_SECONDS = 1.0

# Below the size of a small model.
_LOW_DISK_BYTES = 10e9
# Chats, responses, probe results; compiled kernels and sockets.
_LOW_STATE_BYTES = 200e6


def check_settings(settings: Settings | SettingsError) -> CheckResult:
    """Report the settings file, or its error."""
    if isinstance(settings, SettingsError):
        return CheckResult(
            name="settings",
            verdict="broken",
            facts=str(settings),
            remedy="fix or remove the named setting",
        )
    file = settings_file(os.environ)
    facts = f"read from {file}" if file.is_file() else f"defaults; {file} does not exist"
    return CheckResult(name="settings", verdict="ok", facts=facts)


def check_state() -> CheckResult:
    """Check that the state directory is writable."""
    return assess_directory(
        "state", locations.state_directory(), least_bytes=_LOW_STATE_BYTES, variable="XDG_STATE_HOME"
    )


def check_prefix_cache(directory: Path | None) -> CheckResult:
    """Check the directory of the prefix cache; None: the default."""
    return assess_directory(
        "cache",
        directory or locations.cache_directory(),
        least_bytes=_LOW_STATE_BYTES,
        variable="MLXCTL_ENGINE_CACHE_DIR",
    )


def check_temporary_files() -> CheckResult:
    """Check the directory of temporary files.

    On Linux, MLX compiles kernels there.
    """
    try:
        # Python skips a full TMPDIR; MLX does not.
        directory = Path(os.environ.get("TMPDIR") or tempfile.gettempdir())
    except OSError:
        return CheckResult(
            name="temporary",
            verdict="broken",
            facts="no directory for temporary files can be written",
            remedy="`export TMPDIR=DIRECTORY`, with a directory that you can write",
        )
    return assess_directory("temporary", directory, least_bytes=_LOW_STATE_BYTES, variable="TMPDIR")


def check_models(library: Library) -> CheckResult:
    """Count the models and check the disk space for another one."""
    entries = library.entries()
    broken = [entry.name for entry in entries if entry.problem is not None]
    directory_check = assess_directory(
        "models", library.hub_cache, least_bytes=_LOW_DISK_BYTES, variable="MLXCTL_LIBRARY_HUB_CACHE"
    )
    if directory_check.verdict == "advice" and entries:
        command = "`mlxctl models ls` lists models with their sizes, `mlxctl models rm NAME` deletes one"
        directory_check = replace(directory_check, remedy=f"{directory_check.remedy}; {command}")
    facts = f"{len(entries)} in the library; {directory_check.facts}"
    if broken and directory_check.verdict == "ok":
        remedy = f"`mlxctl models info {broken[0]}` explains the problem" + (
            f" (and {len(broken) - 1} more)" * (len(broken) > 1)
        )
        return CheckResult(name="models", verdict="advice", facts=facts, remedy=remedy)
    return CheckResult(
        name="models", verdict=directory_check.verdict, facts=facts, remedy=directory_check.remedy
    )


def assess_directory(name: str, directory: Path, *, least_bytes: float, variable: str) -> CheckResult:
    """Check that a directory or its nearest parent is writable.

    Also checks that it has `least_bytes` of free space. The environment variable `variable` chooses another
    directory.
    """
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    facts = f"{free / 1e9:,.1f} GB free at {directory}"
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return CheckResult(
            name=name,
            verdict="broken",
            facts=f"{directory} cannot be written",
            remedy=_writable_remedy(directory, existing, variable),
        )
    if free < least_bytes:
        remedy = f"free disk space, or choose a directory on another disk: `export {variable}=DIRECTORY`"
        return CheckResult(name=name, verdict="advice", facts=facts, remedy=remedy)
    return CheckResult(name=name, verdict="ok", facts=facts)


def _writable_remedy(directory: Path, existing: Path, variable: str) -> str:
    """Return the command that makes a directory writable.

    `existing` is its nearest parent.
    """
    path = shlex.quote(str(existing))
    if not existing.is_dir():
        return f"{existing} is a file; move it: `mv {path} {path}.old`"
    if os.statvfs(existing).f_flag & os.ST_RDONLY:
        return f"its disk is read-only; choose another directory: `export {variable}=DIRECTORY`"
    if existing.stat().st_uid == os.getuid():
        return f"`chmod u+rwx {path}`"
    path = shlex.quote(str(directory))
    return f'`sudo mkdir -p {path} && sudo chown "$USER" {path}`'


def check_port(settings: Settings) -> CheckResult:
    """Check that the server can listen on its address, or listens there."""
    host, port = settings.server.host, settings.server.port
    try:
        claim_address(host, port)
    except SettingsError as error:
        url = default_url(settings)
        if (version := _running_version(url)) is not None:
            return CheckResult(name="port", verdict="ok", facts=f"mlxctl {version} serves on {url}")
        return CheckResult(
            name="port", verdict="advice", facts=str(error), remedy="`mlxctl serve --port 0` takes a free one"
        )
    return CheckResult(
        name="port", verdict="ok", facts=f"{port} on {host} is free" if port else f"any free one on {host}"
    )


def check_access(settings: Settings) -> CheckResult:
    """Say who may use the server."""
    server = settings.server
    try:
        policy = policy_service(settings)
        check_keys(server, policy)
    except (MlxctlError, OSError) as error:
        return CheckResult(name="access", verdict="broken", facts=str(error))
    is_open = not policy.requires_keys and not is_loopback(server.host)
    return CheckResult(
        name="access",
        verdict="advice" if is_open else "ok",
        facts=describe_access(server, requires_keys=policy.requires_keys),
    )


def _running_version(url: str) -> str | None:
    """Return the version of the mlxctl server at `url`, or None."""
    try:
        with ServerAddress.of(url).client(seconds=_GREETING_SECONDS) as client:
            greeting = client.get(url, headers={"Accept": "application/json"}).json()
        return str(greeting["version"]) if greeting["name"] == "mlxctl" else None
    except (httpx.HTTPError, OSError, ValueError, KeyError, TypeError):
        return None

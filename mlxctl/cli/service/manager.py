"""Installs, starts, stops and removes the service with the system's own tools.

Only files of the user are written (mode 0600), and only the service named here is touched.
"""

import os
import pwd
import re
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlxctl.cli.service.definition import LABEL, RESTART_SECONDS, UNIT, ServiceDefinition
from mlxctl.ir.errors import ServiceFailed
from mlxctl.state import locations
from mlxctl.state.log_format import find_reason

_TOOL_SECONDS = 60.0
# The exit timeout of the agent, and a margin.
_UNLOAD_SECONDS = 45.0
_POLL_SECONDS = 0.1
# A server that cannot start ends within this time.
_START_SECONDS = 3.0
# A number, or a number and its meaning; of an agent that never ended "(never exited)".
_LAST_SIGNAL = re.compile(r"^\s*last terminating signal = (.+)$", re.MULTILINE)
_LAST_EXIT = re.compile(r"^\s*last exit code = (\d+)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """Whether the service is installed and runs.

    `pid` is None when it does not run. `failure` is why its server ended, if that was an error; the service
    manager then starts it again.
    """

    is_installed: bool
    pid: int | None
    failure: str | None
    definition_file: Path
    log_file: Path

    @property
    def is_running(self) -> bool:
        """Whether it has a process now."""
        return self.pid is not None


class ServiceManager(ABC):
    """One service manager of the system.

    Raises ServiceFailed with the tool's own message.
    """

    definition_file: Path

    @property
    def log_file(self) -> Path:
        """The file with the output of the server."""
        return locations.service_log_file()

    def status(self) -> ServiceStatus:
        """Return the installed unit and whether it runs."""
        is_installed = self.definition_file.exists()
        pid = self._pid() if is_installed else None
        return ServiceStatus(
            is_installed=is_installed,
            pid=pid,
            failure=self._failure() if is_installed and pid is None else None,
            definition_file=self.definition_file,
            log_file=self.log_file,
        )

    def install(self, definition: ServiceDefinition, *, force: bool) -> None:
        """Write the definition and start the service, now and at every login.

        Raises ServiceFailed when it is installed already and `force` is not set, and when the server ends in
        its first seconds; the service stays installed then.
        """
        if self.definition_file.exists():
            if not force:
                raise ServiceFailed(
                    f"the service is already installed ({self.definition_file}); "
                    "use --force to replace it, or `mlxctl service uninstall` first"
                )
            self.uninstall()
        try:
            self.log_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # systemd and launchd would create it readable for all users.
            self.log_file.touch(mode=0o600)
            self.definition_file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.definition_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(self._encoded(definition))
        except OSError as error:
            raise ServiceFailed(f"{error.filename!r} cannot be written: {error.strerror}") from None
        try:
            self._enable()
        except ServiceFailed:
            self.definition_file.unlink(missing_ok=True)
            raise
        self._watch_start()

    def uninstall(self) -> None:
        """Stop the service and remove its definition; its log file stays."""
        if not self.definition_file.exists():
            raise ServiceFailed("the service is not installed, so there is nothing to remove")
        self._disable()
        self.definition_file.unlink(missing_ok=True)

    def start(self) -> None:
        """Start the installed service, and watch its first seconds."""
        self._require_installed()
        self._start()
        self._watch_start()

    def restart(self) -> None:
        """Stop the installed service if it runs, and start it."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """Stop the service until the next login or `start`."""
        self._require_installed()
        self._stop()

    def logout_hint(self) -> str | None:
        """Return what keeps the service running after logout; None where nothing can."""
        return None

    def _watch_start(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        was_running = False
        while (is_running := self._pid() is not None) or not was_running:
            was_running = is_running
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)
        if not is_running:
            raise ServiceFailed(
                f"the server ended at once: {self._reason()}; it is started again every "
                f"{RESTART_SECONDS} s until `mlxctl service stop`"
            )

    def _reason(self) -> str:
        try:
            log = self.log_file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            log = ""
        # Lines before the last one may be of earlier starts.
        return find_reason(log.rstrip().rpartition("\n")[2]) or "it wrote no log"

    def _require_installed(self) -> None:
        if not self.definition_file.exists():
            raise ServiceFailed("the service is not installed; run `mlxctl service install` first")

    @abstractmethod
    def _encoded(self, definition: ServiceDefinition) -> bytes: ...

    @abstractmethod
    def _enable(self) -> None: ...

    @abstractmethod
    def _disable(self) -> None: ...

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _stop(self) -> None: ...

    @abstractmethod
    def _pid(self) -> int | None: ...

    @abstractmethod
    def _failure(self) -> str | None:
        """Return why the last server ended; None unless that was an error."""


class Launchd(ServiceManager):
    """A launchd agent of the user on macOS."""

    def __init__(self) -> None:
        self.definition_file = locations.home_directory() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        self._domain = f"gui/{os.getuid()}"

    def _encoded(self, definition: ServiceDefinition) -> bytes:
        return definition.launchd_plist()

    def _enable(self) -> None:
        _run(["launchctl", "bootstrap", self._domain, str(self.definition_file)])

    def _disable(self) -> None:
        self._stop()

    def _start(self) -> None:
        _run(["launchctl", "bootstrap", self._domain, str(self.definition_file)], may_fail=True)
        _run(["launchctl", "kickstart", f"{self._domain}/{LABEL}"])

    def _stop(self) -> None:
        # An agent that is not loaded is an error of `bootout`; that is what is wanted.
        _run(["launchctl", "bootout", f"{self._domain}/{LABEL}"], may_fail=True)
        # It returns while the server still answers its last requests; until then `bootstrap` would fail.
        deadline = time.monotonic() + _UNLOAD_SECONDS
        while self._print():
            if time.monotonic() > deadline:
                raise ServiceFailed(f"the server has not ended within {_UNLOAD_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def _pid(self) -> int | None:
        found = re.search(r"^\s*pid = (\d+)$", self._print(), re.MULTILINE)
        return int(found[1]) if found else None

    def _failure(self) -> str | None:
        state = self._print()
        if found := _LAST_SIGNAL.search(state):
            return f"it was killed ({found[1]})"
        code = _LAST_EXIT.search(state)
        return self._reason() if code is not None and code[1] != "0" else None

    def _print(self) -> str:
        """Return the state of the agent; empty when it is not loaded."""
        return _run(["launchctl", "print", f"{self._domain}/{LABEL}"], may_fail=True)


class Systemd(ServiceManager):
    """A systemd user unit on Linux."""

    def __init__(self) -> None:
        base = os.environ.get("XDG_CONFIG_HOME")
        root = Path(base) if base else locations.home_directory() / ".config"
        self.definition_file = root / "systemd" / "user" / UNIT

    def _encoded(self, definition: ServiceDefinition) -> bytes:
        return definition.systemd_unit().encode()

    def _enable(self) -> None:
        _run(["systemctl", "--user", "daemon-reload"])
        _run(["systemctl", "--user", "enable", "--now", UNIT])

    def _disable(self) -> None:
        _run(["systemctl", "--user", "disable", "--now", UNIT], may_fail=True)

    def _start(self) -> None:
        _run(["systemctl", "--user", "start", UNIT])

    def _stop(self) -> None:
        _run(["systemctl", "--user", "stop", UNIT])

    def logout_hint(self) -> str | None:
        """Return what keeps user units running after logout.

        None if that is set.
        """
        user = pwd.getpwuid(os.getuid()).pw_name
        if Path("/var/lib/systemd/linger", user).exists():
            return None
        return f"the service ends when you log out; to keep it running: sudo loginctl enable-linger {user}"

    def _pid(self) -> int | None:
        output = self._property("MainPID")
        return int(output) if output.isdigit() and int(output) else None

    def _failure(self) -> str | None:
        if self._property("SubState") not in ("auto-restart", "failed"):
            return None
        result = self._property("Result")
        return self._reason() if result == "exit-code" else f"it was killed ({result})"

    def _property(self, name: str) -> str:
        return _run(
            ["systemctl", "--user", "show", "--property", name, "--value", UNIT], may_fail=True
        ).strip()


def system_manager() -> ServiceManager:
    """Return the service manager of this system."""
    return Launchd() if sys.platform == "darwin" else Systemd()


def _run(command: Sequence[str], *, may_fail: bool = False) -> str:
    tool = command[0]
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=_TOOL_SECONDS, check=False
        )
    except FileNotFoundError:
        raise ServiceFailed(
            f"{tool} is not available here; run `mlxctl serve` under a supervisor of your own instead"
        ) from None
    except subprocess.TimeoutExpired:
        raise ServiceFailed(f"{' '.join(command)} did not answer within {_TOOL_SECONDS:.0f} s") from None
    if done.returncode and not may_fail:
        reason = (done.stderr or done.stdout).strip().splitlines()
        what = f"{' '.join(command[:3])} failed: {reason[-1] if reason else done.returncode}"
        if "connect to bus" in what:
            what += "; no systemd user session runs here: run `mlxctl serve` under a supervisor of your own"
        if "Domain does not support" in what:
            what += "; launchd starts agents of users who are logged in at the screen, not over SSH alone"
        raise ServiceFailed(what)
    return done.stdout

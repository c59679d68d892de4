"""The service's definition file, as launchd and systemd read it. Pure."""

import plistlib
from dataclasses import dataclass
from pathlib import Path

LABEL = "io.mlxctl.serve"
"""Label of the launchd agent."""

UNIT = "mlxctl.cli.service"
"""Name of the systemd user unit."""

RESTART_SECONDS = 10
"""Pause before a server that failed is started again."""

# The drain time of open requests, and a margin.
_STOP_SECONDS = 30
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "%": "%%", "\n": "\\n"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDefinition:
    """The command line of the service, its directory, log file and environment.

    `command` begins with the absolute path of the Python that has mlxctl; other paths in it are relative to
    `directory`. Secrets do not belong here: the
    file is readable for every program of the user; keys come from the settings file.
    """

    command: tuple[str, ...]
    directory: Path
    log_file: Path
    environment: dict[str, str]

    def launchd_plist(self) -> bytes:
        """Return the property list of a launchd agent (launchd.plist(5))."""
        return plistlib.dumps(
            {
                "Label": LABEL,
                "ProgramArguments": list(self.command),
                "WorkingDirectory": str(self.directory),
                "EnvironmentVariables": self.environment,
                "RunAtLoad": True,
                # A server that was stopped on purpose (exit code 0) stays stopped.
                "KeepAlive": {"SuccessfulExit": False},
                "ThrottleInterval": RESTART_SECONDS,
                "ExitTimeOut": _STOP_SECONDS,
                "ProcessType": "Interactive",
                "StandardOutPath": str(self.log_file),
                "StandardErrorPath": str(self.log_file),
            }
        )

    def systemd_unit(self) -> str:
        """Return the text of a systemd user unit (systemd.service(5))."""
        environment = "".join(
            f"Environment={_quoted(f'{name}={value}')}\n" for name, value in sorted(self.environment.items())
        )
        return (
            "[Unit]\n"
            "Description=mlxctl: OpenAI- and Anthropic-compatible server for MLX models\n"
            "After=network.target\n"
            "\n"
            "[Service]\n"
            # Only command lines have variables.
            f"ExecStart={' '.join(_quoted(argument).replace('$', '$$') for argument in self.command)}\n"
            f"WorkingDirectory={_path(self.directory)}\n"
            f"{environment}"
            "Restart=on-failure\n"
            f"RestartSec={RESTART_SECONDS}\n"
            f"TimeoutStopSec={_STOP_SECONDS}\n"
            "KillSignal=SIGTERM\n"
            f"StandardOutput=append:{_path(self.log_file)}\n"
            f"StandardError=append:{_path(self.log_file)}\n"
            "\n"
            "[Install]\n"
            "WantedBy=default.target\n"
        )


def _quoted(argument: str) -> str:
    return f'"{argument.translate(_ESCAPED)}"'


def _path(path: Path) -> str:
    return str(path).replace("%", "%%")

"""One turn of a coding agent with an empty home directory."""

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

SECRET = "marzipan-4711"
"""Content of the file to print, which appears in no prompt.

The model can repeat it only when the command was executed.
"""

_REPEATED = f"The output is: {SECRET}"
"""How the tiny model repeats it; some clients print the command's own output, too."""

_LIMIT_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Result of one turn.

    `answer` is the client's final output; `proof` is text that only the tool could provide.
    """

    client: str
    version: str
    exit_code: int
    seconds: float
    answer: str
    proof: str = _REPEATED

    @property
    def is_complete(self) -> bool:
        """Whether the answer contains the tool's result."""
        return self.exit_code == 0 and self.proof in self.answer


class ClientBench:
    """Runs clients of one npm prefix against one server."""

    def __init__(self, prefix: Path, scratch: Path, *, url: str, model: str) -> None:
        self._binaries = prefix / "node_modules" / ".bin"
        self._home = scratch / "home"
        self._work = scratch / "work"
        self._url = url
        self._model = model
        self._work.mkdir(parents=True)
        (self._work / "secret.txt").write_text(f"{SECRET}\n")

    def claude_code(self) -> Turn:
        """Answer the task with Claude Code."""
        environment = {
            "ANTHROPIC_BASE_URL": self._url,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        order = "Call the tool Bash with command set to `cat secret.txt`."
        return self._run(
            "claude", ["-p", "--model", self._model, "--allowedTools", "Bash", "--", order], environment
        )

    def codex(self) -> Turn:
        """Answer the task with Codex."""
        settings = self._home / ".codex" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(
            f'model = "{self._model}"\nmodel_provider = "mlxctl"\n[model_providers.mlxctl]\nname = "mlxctl"\n'
            f'base_url = "{self._url}/v1"\nwire_api = "responses"\nenv_key = "MLXCTL_KEY"\n'
        )
        order = "Call the tool exec_command with cmd set to `cat secret.txt`."
        return self._run("codex", ["exec", "--skip-git-repo-check", order], {"MLXCTL_KEY": "dummy"})

    def opencode(self) -> Turn:
        """Answer the task with opencode."""
        settings = self._home / ".config" / "opencode" / "opencode.json"
        settings.parent.mkdir(parents=True)
        name = f"mlxctl/{self._model}"
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{self._url}/v1", "apiKey": "dummy"},
            "models": {self._model: {}},
        }
        settings.write_text(
            json.dumps(
                {"provider": {"mlxctl": provider}, "model": name, "small_model": name, "share": "disabled"}
            )
        )
        # Without these it waits for unreachable services.
        environment = {
            f"OPENCODE_DISABLE_{what}": "1"
            for what in ("MODELS_FETCH", "AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD")
        }
        order = "Call the tool bash with command set to `cat secret.txt`."
        return self._run("opencode", ["run", order], environment)

    def copilot(self) -> Turn:
        """Answer the task with GitHub Copilot CLI."""
        environment = {
            "COPILOT_PROVIDER_BASE_URL": f"{self._url}/v1",
            "COPILOT_MODEL": self._model,
            "COPILOT_OFFLINE": "true",
        }
        order = "Call the tool bash with command set to `cat secret.txt`."
        return self._run("copilot", ["-p", order, "--allow-all-tools"], environment)

    def cline(self) -> Turn:
        """Answer the task with Cline's command line."""
        provider = "openai-compatible"
        self._run("cline", ["auth", provider, "-k", "none", "-m", self._model, "-b", f"{self._url}/v1"], {})
        order = "Call the tool run_commands with commands set to `cat secret.txt`."
        return self._run("cline", ["-P", provider, "-m", self._model, order], {})

    def _run(self, client: str, arguments: list[str], environment: dict[str, str]) -> Turn:
        self._home.mkdir(exist_ok=True)
        clean = {"PATH": f"{self._binaries}:{os.environ['PATH']}", "HOME": str(self._home), **environment}
        version = self._output([client, "--version"], clean).stdout.strip().split("\n")[0]
        started = time.monotonic()
        done = self._output([client, *arguments], clean)
        seconds = time.monotonic() - started
        return Turn(
            client=client,
            version=version,
            exit_code=done.returncode,
            seconds=seconds,
            answer=done.stdout.strip(),
        )

    def _output(self, command: list[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command,
            cwd=self._work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
            check=False,
        )

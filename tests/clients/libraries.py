"""Client libraries of PyPI and npm, each in its own environment."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.clients.turns import Turn

MODEL = "mlxctl-demo"
_QUESTION = "What is the weather in Lisbon?"
_RESULT = "21 degrees and sunny"
_LIMIT_SECONDS = 300.0
_SCRIPTS = Path(__file__).parent / "scripts"
_LLM_TOOL = f'def get_weather(city: str) -> str:\n    "Get the weather of a city"\n    return "{_RESULT}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A client and its packages; the first package's version is reported."""

    name: str
    packages: tuple[str, ...]
    is_of_npm: bool = False


LIBRARIES = (
    Library(
        name="langchain",
        packages=("langchain-openai==1.7.3", "langchain-anthropic==1.7.7", "langchain-ollama==1.1.0"),
    ),
    Library(
        name="llama_index",
        packages=("llama-index-llms-openai-like==0.8.1", "llama-index-llms-ollama==0.11.0"),
    ),
    Library(name="anthropic", packages=("anthropic==2.12.0",)),
    Library(name="pydantic_ai", packages=("pydantic-ai-slim[openai,anthropic]==2.68.0",)),
    Library(name="litellm", packages=("litellm==1.106.2", "mcp")),
    Library(name="llm", packages=("llm==0.36",)),
    Library(name="librechat", packages=("@librechat/agents@3.2.21",), is_of_npm=True),
)


class LibraryBench:
    """Installs the libraries below `home` and runs one turn with each."""

    def __init__(self, home: Path, scratch: Path, *, url: str) -> None:
        self._home = home
        self._scratch = scratch
        self._url = url

    def turns(self) -> Iterator[Turn]:
        """Yield one turn per library and protocol."""
        for library in LIBRARIES:
            home = self._home / library.name
            script = str(_SCRIPTS / f"with_{library.name}")
            if library.is_of_npm:
                _install_of_npm(library, home)
                yield from self._script(library, ["node", f"{script}.cjs"], NODE_PATH=f"{home}/node_modules")
                continue
            _install(library, home)
            if library.name == "llm":
                yield from self._llm(library, home / "bin")
            else:
                yield from self._script(library, [f"{home}/bin/python", f"{script}.py"])

    def _script(self, library: Library, command: Sequence[str], **environment: str) -> Iterator[Turn]:
        done, seconds = self._run([*command, self._url, MODEL, _QUESTION, _RESULT], **environment)
        records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for turn in records or [{"protocol": "none", "answer": done.stderr.strip()[-500:]}]:
            yield self._turn(
                library, turn["protocol"], done.returncode, seconds / max(len(records), 1), turn["answer"]
            )

    def _llm(self, library: Library, binaries: Path) -> Iterator[Turn]:
        model = {
            "model_id": "here",
            "model_name": MODEL,
            "api_base": f"{self._url}/v1",
            "supports_tools": True,
        }
        # JSON is YAML, too.
        (self._scratch / "extra-openai-models.yaml").write_text(json.dumps([model]))
        command = [
            str(binaries / "llm"),
            "-m",
            "here",
            "--key",
            "dummy",
            "-o",
            "temperature",
            "0",
            "--functions",
            _LLM_TOOL,
        ]
        done, seconds = self._run([*command, _QUESTION])
        yield self._turn(library, "chat", done.returncode, seconds, done.stdout.strip())

    def _run(
        self, command: Sequence[str], **environment: str
    ) -> "tuple[subprocess.CompletedProcess[str], float]":
        environment |= {
            "PATH": os.environ["PATH"],
            "HOME": str(self._scratch),
            "LLM_USER_PATH": str(self._scratch),
        }
        started = time.monotonic()
        done = subprocess.run(
            command,
            cwd=self._scratch,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
            check=False,
        )
        return done, time.monotonic() - started

    def _turn(self, library: Library, protocol: str, exit_code: int, seconds: float, answer: str) -> Turn:
        version = library.packages[0].rpartition("@" if library.is_of_npm else "==")[2]
        client = f"{library.name} ({protocol})"
        return Turn(
            client=client, version=version, exit_code=exit_code, seconds=seconds, answer=answer, proof=_RESULT
        )


def _install(library: Library, home: Path) -> None:
    if not home.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    subprocess.run([str(home / "bin" / "pip"), "install", "--quiet", *library.packages], check=True)


def _install_of_npm(library: Library, home: Path) -> None:
    command = ["npm", "install", "--no-fund", "--no-audit", "--prefix", str(home), *library.packages]
    subprocess.run(command, check=True)

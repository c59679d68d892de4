"""Run coding agents and libraries for one tool-calling turn each."""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import httpx

from mlxctl import __version__
from tests.clients.libraries import LibraryBench
from tests.clients.turns import ClientBench, Turn
from tests.server.process import serving
from tests.tiny_models.directory_cache import cache_root
from tests.tiny_models.tool_caller import make_in_own_process

PACKAGES = (
    "@anthropic-ai/claude-code@2.1.329",
    "@openai/codex@0.169.0",
    "opencode-ai@1.18.33",
    "@github/copilot@1.0.102",
    "cline@3.0.65",
)
# For a model of this name Claude Code sends its reminders before the question, where the tiny model ignores
# them.
_NAME = "claude-sonnet-4-5"
_RESULTS = Path(__file__).parents[2] / "bench_results" / "clients.json"


def main() -> None:
    """Install, train if needed, run and report.

    The exit code is the number of incomplete turns.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__)
    parser.add_argument("--model", type=Path, default=cache_root() / "tool-caller", help="trained if missing")
    parser.add_argument("--prefix", type=Path, default=cache_root() / "npm", help="npm prefix of the clients")
    parser.add_argument(
        "--libraries",
        type=Path,
        default=cache_root() / "libraries",
        help="directory of the virtual environments",
    )
    parser.add_argument(
        "--only",
        choices=["agents", "libraries"],
        help="run only clients from npm, or only libraries from PyPI",
    )
    parser.add_argument(
        "--save",
        action="store_true",
        help=f"write {_RESULTS.name} into bench_results; other entries are kept",
    )
    options = parser.parse_args()
    turns, stats = ([], {}) if options.only == "libraries" else _agent_turns(options.model, options.prefix)
    if options.only != "agents":
        turns += _library_turns(options.libraries)
    for turn in turns:
        outcome = "complete" if turn.is_complete else "NOT complete"
        print(f"{turn.client} {turn.version}: {outcome} in {turn.seconds:.0f} s: {turn.answer}")
    if options.save:
        _save(turns, stats)
    sys.exit(sum(not turn.is_complete for turn in turns))


def _save(turns: list[Turn], stats: dict[str, object]) -> None:
    stored = json.loads(_RESULTS.read_text())
    records = [{**asdict(turn), "is_complete": turn.is_complete} for turn in turns]
    kept = [turn for turn in stored["turns"] if turn["client"] not in {turn.client for turn in turns}]
    record = {"mlxctl": __version__, "turns": [*kept, *records], "stats": stats or stored["stats"]}
    _RESULTS.write_text(json.dumps(record, indent=2) + "\n")


def _agent_turns(model: Path, prefix: Path) -> tuple[list[Turn], dict[str, object]]:
    subprocess.run(
        ["npm", "install", "--no-fund", "--no-audit", "--prefix", str(prefix), *PACKAGES], check=True
    )
    subprocess.run(["node", "install.cjs"], cwd=prefix / "node_modules/@anthropic-ai/claude-code", check=True)
    if not model.exists():
        make_in_own_process(model)
    return _turns(model, prefix)


def _turns(model: Path, prefix: Path) -> tuple[list[Turn], dict[str, object]]:
    with tempfile.TemporaryDirectory() as scratch, serving(model, "--name", _NAME) as server:
        bench = ClientBench(prefix, Path(scratch), url=server.url, model=_NAME)
        turns = [bench.claude_code(), bench.codex(), bench.opencode(), bench.copilot(), bench.cline()]
        stats = httpx.get(f"{server.url}/stats").json()
        return turns, {
            name: stats[name] for name in ("num_prompt_tokens", "num_generated_tokens", "cache_tokens_reused")
        }


def _library_turns(home: Path) -> list[Turn]:
    with tempfile.TemporaryDirectory() as scratch, serving(None) as server:
        return list(LibraryBench(home, Path(scratch), url=server.url).turns())


if __name__ == "__main__":
    main()

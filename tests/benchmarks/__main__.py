"""`python -m tests.benchmarks`: measure, print a table, store the result.

The last line on standard output is one JSON document.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests import tiny_models
from tests.benchmarks import (
    embedding,
    memory,
    packing,
    prefix,
    prefix_index,
    quantized_kv,
    serving,
    team,
    terminal,
)
from tests.benchmarks.client_cost import client_cost
from tests.benchmarks.raw import Raw
from tests.benchmarks.reporting import print_findings, store_findings
from tests.benchmarks.rounds import Finding, Ratio
from tests.benchmarks.servers import installed_environment, mlxctl_server

_RESULT = Path("bench_results/all.json")


def main() -> None:
    """Run the benchmarks that the arguments name and report."""
    parser = argparse.ArgumentParser(description="Measure what no scenario of `mlxctl bench` does.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--requests", type=int, default=2000, help="requests of the memory measurement")
    parser.add_argument("--only", choices=_PARTS)
    parser.add_argument("--out", type=Path, default=_RESULT)
    options = parser.parse_args()
    model = tiny_models.model("bench5m")
    parts = [options.only] if options.only else list(_PARTS)
    findings = [finding for part in parts for finding in _PARTS[part](model, options)]
    print_findings(findings, title="mlxctl", caption="median of alternating rounds (lowest to highest)")
    print(store_findings(findings, options.out))


def _throughput(model: Path, options: argparse.Namespace) -> Iterator[Finding]:
    raw = Raw(model)
    with mlxctl_server(model) as server:
        yield from serving.throughput(server, raw, rounds=options.rounds, num_tokens=options.tokens)
    raw.close()


def _structured_output(model: Path, options: argparse.Namespace) -> Iterator[Finding]:
    with mlxctl_server(model) as server:
        yield from serving.structured_output(server, rounds=options.rounds, num_tokens=options.tokens)


def _sampling_values(model: Path, options: argparse.Namespace) -> Iterator[Finding]:
    with mlxctl_server(model) as server:
        yield from serving.new_sampling_values(server, rounds=4 * options.rounds)


def _prefix(model: Path, options: argparse.Namespace) -> Iterator[Finding]:
    with mlxctl_server(model) as server:
        yield from prefix.stored_bytes(server, model)
    yield from prefix_index.measure(rounds=options.rounds)


def _memory(_: Path, options: argparse.Namespace) -> Iterator[Finding]:
    for family in ("qwen3", "qwen3_next"):
        yield memory.growth(tiny_models.model(family), family, num_requests=options.requests)


def _start(model: Path, options: argparse.Namespace) -> Iterator[Finding]:
    mlxctl = str(Path(sys.executable).parent / "mlxctl")
    live_seconds = []
    tab = {"_MLXCTL_COMPLETE": "fish_complete", "COMP_WORDS": "mlxctl serve --model ", "COMP_CWORD": ""}
    starts: dict[str, dict[str, str]] = {"mlxctl --help": {}, "TAB after mlxctl serve --model": tab}
    commands: dict[str, list[float]] = {name: [] for name in starts}
    for _ in range(1 + options.rounds):
        with mlxctl_server(model) as server:
            live_seconds.append(server.seconds_to_live)
        for command, taken in commands.items():
            begin = time.perf_counter()
            subprocess.run(
                [mlxctl, "--help"],
                check=True,
                stdout=subprocess.DEVNULL,
                env={**installed_environment(), **starts[command]},
            )
            taken.append(time.perf_counter() - begin)
    # The first start writes bytecode that an installation already has.
    live_seconds, commands = live_seconds[1:], {command: taken[1:] for command, taken in commands.items()}
    timings = [(f"{command}, s", taken, 0.15) for command, taken in commands.items()]
    for name, seconds, bar in (("/livez answers after start, s", live_seconds, 0.7), *timings):
        ratio = Ratio(statistics.median(seconds), min(seconds), max(seconds))
        yield Finding(name, ratio, bar, False, f"{ratio.median * 1e3:.0f} ms")


_PARTS: dict[str, Callable[[Path, argparse.Namespace], Iterator[Finding]]] = {
    "throughput": _throughput,
    "sampling-values": _sampling_values,
    "structured-output": _structured_output,
    "start": _start,
    "memory": _memory,
    "prefix": _prefix,
    "packing": lambda *_: packing.measure(),
    "kv": lambda _, options: quantized_kv.measure(options.rounds),
    "terminal": lambda _, options: terminal.findings(options.rounds),
    "client": lambda _, options: client_cost(rounds=options.rounds),
    "embedding": lambda _, options: embedding.throughput(rounds=options.rounds),
    "team": lambda model, options: team.findings(model, rounds=options.rounds),
    "controls": lambda model, options: team.cost(model, rounds=options.rounds, num_tokens=options.tokens),
}


if __name__ == "__main__":
    main()

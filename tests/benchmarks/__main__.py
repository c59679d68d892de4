"""`python -m tests.benchmarks`: measure, print a table, store the result.

The last line on standard output is one JSON document.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests import tiny_models
from tests.benchmarks import (
    agent_replay,
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
from tests.benchmarks.servers import installed_environment, mlx_lm_server, mlxctl_server

_RESULT = Path("bench_results/all.json")


def main() -> None:
    """Run the benchmarks that the arguments name and report."""
    parser = argparse.ArgumentParser(description="Measure mlxctl beside mlx_lm, as ratios in one run.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--requests", type=int, default=2000, help="requests of the memory measurement")
    parts = [
        "throughput",
        "latency",
        "sampling-values",
        "structured-output",
        "start",
        "memory",
        "prefix",
        "restart",
        "packing",
        "kv",
        "terminal",
        "client",
        "embedding",
        "team",
        "controls",
    ]
    parser.add_argument("--only", choices=parts)
    parser.add_argument("--out", type=Path, default=_RESULT)
    options = parser.parse_args()
    findings = list(_measure(options))
    print_findings(
        findings, title="mlxctl beside mlx_lm", caption="median of alternating rounds (lowest to highest)"
    )
    print(store_findings(findings, options.out))


def _measure(options: argparse.Namespace) -> Any:
    wanted = lambda part: options.only in (None, part)  # noqa: E731
    model = tiny_models.model("bench5m")
    if wanted("restart"):
        yield from prefix.after_restart(model, rounds=options.rounds)
    if wanted("packing"):
        yield from packing.measure()
    if wanted("kv"):
        yield from quantized_kv.measure(options.rounds)
    if wanted("terminal"):
        yield from terminal.findings(options.rounds)
    if wanted("client"):
        yield from client_cost(rounds=options.rounds)
    if wanted("embedding"):
        yield from embedding.throughput(rounds=options.rounds)
    if wanted("team"):
        yield from team.findings(model, rounds=options.rounds)
    if wanted("controls"):
        yield from team.cost(model, rounds=options.rounds, num_tokens=options.tokens)
    if options.only in ("restart", "packing", "kv", "terminal", "client", "embedding", "team", "controls"):
        return
    raw = Raw(model)
    with mlxctl_server(model) as ours, mlx_lm_server(model) as theirs:
        if wanted("throughput"):
            yield from serving.throughput(ours, theirs, raw, rounds=options.rounds, num_tokens=options.tokens)
        if wanted("structured-output"):
            yield from serving.structured_output(ours, rounds=options.rounds, num_tokens=options.tokens)
        for server in (ours, theirs):
            if wanted("latency"):
                # A server without chunked prefill takes minutes per round.
                yield from serving.latency(server, rounds=options.rounds if server is ours else 1)
            if wanted("sampling-values"):
                yield from serving.new_sampling_values(server, rounds=4 * options.rounds)
        if wanted("prefix"):
            yield from prefix.time_to_first_token(ours, theirs, rounds=options.rounds)
            yield from prefix.fan_out(ours, model, rounds=options.rounds)
            # One round of mlx_lm.server takes as long as all rounds of mlxctl.
            yield from prefix.fan_out(theirs, model, rounds=1)
            yield from prefix.stored_bytes(ours, model)
    raw.close()
    if wanted("prefix"):
        yield from prefix_index.measure(rounds=options.rounds)
        for family in ("endless", "qwen3_next"):
            with mlxctl_server(tiny_models.model(family)) as server:
                yield from agent_replay.replay(server, family)
    if wanted("start"):
        yield from _start(model, options.rounds)
    if wanted("memory"):
        for family in ("qwen3", "qwen3_next"):
            yield memory.growth(tiny_models.model(family), family, num_requests=options.requests)


def _start(model: Path, rounds: int) -> Any:
    mlxctl = str(Path(sys.executable).parent / "mlxctl")
    live_seconds = []
    tab = {"_MLXCTL_COMPLETE": "fish_complete", "COMP_WORDS": "mlxctl serve --model ", "COMP_CWORD": ""}
    starts: dict[str, dict[str, str]] = {"mlxctl --help": {}, "TAB after mlxctl serve --model": tab}
    commands: dict[str, list[float]] = {name: [] for name in starts}
    for _ in range(1 + rounds):
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


if __name__ == "__main__":
    main()

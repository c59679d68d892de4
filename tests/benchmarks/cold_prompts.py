"""`python -m tests.benchmarks.cold_prompts`: new prompts for a real model, beside other servers.

A cell is a number of prompts sent at once, and about their length in tokens. In each round every server
answers the same new prompts, in an order that rotates. Writes `bench_results/cold-prompts.json` after each
cell, and prints the table at the end. `RAPID_MLX` names the program of rapid-mlx; without it, and without
`rapid-mlx` on PATH, that server is left out.
"""

import argparse
import asyncio
import secrets
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from mlxctl.bench.prompts import Prompts, user
from mlxctl.bench.server_facts import describe_server
from mlxctl.bench.target import BenchTarget, open_target
from tests.benchmarks.against import other_servers
from tests.benchmarks.reporting import print_findings, store_findings
from tests.benchmarks.rounds import Finding, Ratio
from tests.benchmarks.servers import Server, mlxctl_server
from tests.real_models import smollm2

_COUNTS = (1, 2, 4, 8)
_LENGTHS = (40, 370, 1500)
# Of the chat template, and of the letters that make a prompt new: 38 to 43 with this model.
_OTHER_TOKENS = 40


@dataclass(frozen=True)
class Sample:
    """One server's answers to the prompts of a round."""

    tokens_per_second: float
    slowest_first_token: float
    seconds: float
    cpu_seconds: float
    num_prompt_tokens: int
    num_answer_tokens: int


# The compared figures, with the words of the table. More is better of the first one only.
_FIGURES = {
    "tokens_per_second": "tokens per second",
    "slowest_first_token": "slowest first token, s",
    "seconds": "wall time, s",
    "cpu_seconds": "CPU time of the server, s",
}


class ColdPrompts:
    """Runs cells on the servers.

    The first one is compared with each other one.
    """

    def __init__(self, servers: Sequence[Server], *, num_answer_tokens: int) -> None:
        self._num_answer_tokens = num_answer_tokens
        self._servers = [(server, asyncio.run(_target(server))) for server in servers]
        prompts = Prompts(seed=1, nonce=secrets.token_hex(6))
        tokens_per_word = [asyncio.run(target.calibrate(prompts)) for _, target in self._servers]
        self._prompts = replace(prompts, tokens_per_word=tokens_per_word[0])
        for server, target in self._servers:
            self._ask(server, target, 2, _LENGTHS[0], "warm-up")
        self.facts = [_facts(target) for _, target in self._servers]
        self.samples: list[dict[str, Any]] = []

    def measure(self, count: int, length: int, *, num_rounds: int) -> Iterator[Finding]:
        """Yield each figure beside each other server."""
        found: dict[str, list[Sample]] = {server.name: [] for server, _ in self._servers}
        for number in range(num_rounds):
            first = number % len(self._servers)
            for server, target in self._servers[first:] + self._servers[:first]:
                sample = self._ask(server, target, count, length, f"{length} tokens, round {number}")
                found[server.name].append(sample)
                cell = {"count": count, "length": length, "round": number, "server": server.name}
                self.samples.append(cell | asdict(sample))
        ours = found.pop(self._servers[0][0].name)
        for name, theirs in found.items():
            for figure, words in _FIGURES.items():
                yield _compared(f"{count} x {length}, {words} / {name}", figure, ours, theirs)

    def _ask(self, server: Server, target: BenchTarget, count: int, length: int, key: str) -> Sample:
        num_tokens = max(1, length - _OTHER_TOKENS)
        texts = [self._prompts.text(f"{count}, {key}, {number}", num_tokens) for number in range(count)]

        async def ask() -> list[Any]:
            answers = (target.ask(user(text), max_tokens=self._num_answer_tokens) for text in texts)
            return await asyncio.gather(*answers)

        cpu_seconds = server.cpu_seconds
        streams = asyncio.run(ask())
        cpu_seconds = server.cpu_seconds - cpu_seconds
        seconds = max(stream.ended for stream in streams) - min(stream.sent for stream in streams)
        num_answer_tokens = sum(stream.num_counted for stream in streams)
        return Sample(
            tokens_per_second=num_answer_tokens / seconds,
            slowest_first_token=max(stream.ttft for stream in streams),
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            num_prompt_tokens=sum(stream.num_prompt_tokens or 0 for stream in streams),
            num_answer_tokens=num_answer_tokens,
        )


async def _target(server: Server) -> BenchTarget:
    target = await open_target(server.name, server.url, name=server.name, model=server.model)
    # All servers sample greedily and stop at the end token, so all answers have the same length.
    target.fields = {}
    return target


def _facts(target: BenchTarget) -> dict[str, Any]:
    """Return what the server runs, without paths and ports."""
    facts: dict[str, Any] = msgspec.to_builtins(asyncio.run(describe_server(target)))
    return {name: value for name, value in facts.items() if name not in ("label", "model", "url")}


def _compared(name: str, figure: str, ours: Sequence[Sample], theirs: Sequence[Sample]) -> Finding:
    one, other = ([getattr(sample, figure) for sample in samples] for samples in (ours, theirs))
    detail = f"{statistics.median(one):.2f} and {statistics.median(other):.2f}"
    return Finding(name, Ratio.of(one, other), 1.0, figure == "tokens_per_second", detail)


def main() -> None:
    """Measure the chosen cells and report."""
    others = other_servers()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--servers", nargs="+", choices=sorted(others), default=sorted(others))
    parser.add_argument("--prompts", nargs="+", type=int, default=_COUNTS, help="prompts sent at once")
    parser.add_argument("--lengths", nargs="+", type=int, default=_LENGTHS, help="tokens of a prompt")
    parser.add_argument("--answer-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--max-cell-tokens", type=int, default=6000, help="leave out cells with more prompt tokens a round"
    )
    parser.add_argument("--out", type=Path, default=Path("bench_results/cold-prompts.json"))
    options = parser.parse_args()
    sizes = [(count, length) for length in options.lengths for count in options.prompts]
    model = smollm2()
    findings: list[Finding] = []
    with ExitStack() as opened:
        servers = [opened.enter_context(mlxctl_server(model))]
        servers += [opened.enter_context(others[name](model)) for name in options.servers]
        run = ColdPrompts(servers, num_answer_tokens=options.answer_tokens)
        for count, length in sizes:
            if count * length > options.max_cell_tokens:
                continue
            started = time.perf_counter()
            findings += run.measure(count, length, num_rounds=options.rounds)
            print(f"{count} x {length}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
            facts = {"model": model.name, "servers": run.facts, "samples": run.samples}
            store_findings(findings, options.out, **facts)
    print_findings(
        findings,
        title=f"mlxctl / another server: {model.name}",
        caption="median of rounds (lowest to highest); detail: medians of both",
    )


if __name__ == "__main__":
    main()

"""Prefix-cache benefits: first tokens, concurrent agents, shared storage."""

import asyncio
import json
import random
import statistics
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from mlxctl.bench.run import RunOptions, ServerChoice, run_bench
from mlxctl.bench.scenarios import Prefix
from tests.bench.recording_observer import RecordingObserver
from tests.benchmarks.load import chat_body, run_stream
from tests.benchmarks.rounds import Finding, Ratio
from tests.benchmarks.servers import Server

_LONG_TOKENS = 8192
# Not aligned to any chunk size.
_SHARED_TOKENS = 4200
_NUM_AGENTS = 8
_NUM_CONVERSATIONS = 16
# Random tokens may be partial characters; several make sure that there is text.
_ANSWER_TOKENS = 4


class Prose:
    """New texts of a given number of tokens."""

    def __init__(self, model: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self._generator = random.Random()

    def text(self, num_tokens: int) -> str:
        """Return a text of `num_tokens` tokens, within two."""
        words = " ".join(f"{self._generator.randrange(10**6)}" for _ in range(num_tokens // 4 + 2))
        encoding = self._tokenizer.encode(words)
        return words[: encoding.offsets[min(num_tokens, len(encoding.ids)) - 1][1]]


def time_to_first_token(ours: Server, theirs: Server, *, rounds: int) -> Iterator[Finding]:
    """Measure a long text cold, and again with another question."""
    servers = [
        ServerChoice(url=f"http://127.0.0.1:{server.port}", model=server.model) for server in (ours, theirs)
    ]
    figures = _measured(servers, rounds=rounds, restarts=False)
    for server, label in ((ours, "A"), (theirs, "B")):
        warm, cold = figures[label, "ttft_warm"], figures[label, "ttft_cold"]
        name = f"{server.name}: first token of {_LONG_TOKENS} cached tokens, with a new ending / cold"
        yield Finding(name, Ratio.of(warm, cold), 0.01, False, _milliseconds(warm, cold))
    our_times, their_times = figures["A", "ttft_warm"], figures["B", "ttft_warm"]
    yield Finding(
        "first token of a cached prompt / mlx_lm.server",
        Ratio.of(our_times, their_times),
        0.6,
        False,
        _milliseconds(our_times, their_times),
    )


def after_restart(model: Path, *, rounds: int) -> Iterator[Finding]:
    """Measure a long text cold, and after a server restart."""
    server = ServerChoice(serve_arguments=("--model", str(model), "--name", "default_model"))
    figures = _measured([server], rounds=rounds, restarts=True)
    after, cold = figures["A", "ttft_restart"], figures["A", "ttft_cold"]
    name = f"mlxctl: first token of {_LONG_TOKENS} cached tokens after a restart / cold"
    yield Finding(name, Ratio.of(after, cold), 0.1, False, _milliseconds(after, cold))


def _measured(
    servers: Sequence[ServerChoice], *, rounds: int, restarts: bool
) -> dict[tuple[str, str], Sequence[float]]:
    """Run the prefix scenario; return rounds by target and figure."""
    scenario = Prefix(prompt_tokens=_LONG_TOKENS, answer_tokens=_ANSWER_TOKENS, restarts=restarts)
    options = RunOptions(servers=tuple(servers), num_rounds=rounds)
    result = run_bench(scenario, options, RecordingObserver())
    return {(each.target, each.name): each.rounds for each in result.measurements}


def fan_out(server: Server, model: Path, *, rounds: int) -> Iterator[Finding]:
    """Measure concurrent agents on one cold prefix, relative to one alone."""
    prose = Prose(model)
    together, alone, computed = [], [], []
    for _ in range(rounds):
        alone.append(_first_token(server, prose.text(_SHARED_TOKENS)))
        shared = prose.text(_SHARED_TOKENS)
        before = _num_prompt_tokens(server)
        together.append(asyncio.run(_last_first_token(server, shared)))
        computed.append((_num_prompt_tokens(server) - before) / _SHARED_TOKENS)
    name = f"{server.name}: {_NUM_AGENTS} agents on one cold prefix of {_SHARED_TOKENS} tokens"
    yield Finding(
        f"{name}: last first token / one alone",
        Ratio.of(together, alone),
        1.35,
        False,
        _milliseconds(together, alone),
    )
    if any(computed):
        ratio = Ratio(statistics.median(computed), min(computed), max(computed))
        yield Finding(
            f"{name}: tokens computed / tokens of the prefix", ratio, 1.1, False, f"{_NUM_AGENTS} prompts"
        )


def stored_bytes(server: Server, model: Path) -> Iterator[Finding]:
    """Measure stored bytes of conversations with a shared prefix.

    The reference is the KV size of the prefix and of every tail, each once.
    """
    prose = Prose(model)
    for tail_tokens in (64, 512):
        shared = prose.text(_SHARED_TOKENS)
        before = _stats(server)["cache_bytes"]
        totals = [_usage(server, f"{shared} {prose.text(tail_tokens)}") for _ in range(_NUM_CONVERSATIONS)]
        stored = _stats(server)["cache_bytes"] - before
        needed = _kv_bytes_per_token(model) * (
            _SHARED_TOKENS + sum(total - _SHARED_TOKENS for total in totals)
        )
        ratio = Ratio(stored / needed, stored / needed, stored / needed)
        label = f"{_NUM_CONVERSATIONS} conversations, tails of {tail_tokens} tokens"
        name = f"{label}: stored bytes / prefix and tails"
        yield Finding(name, ratio, 1.05, False, f"{stored / 1e6:.1f} and {needed / 1e6:.1f} MB")


def _first_token(server: Server, text: str) -> float:
    return asyncio.run(run_stream(server.port, chat_body(text, max_tokens=_ANSWER_TOKENS))).ttft


async def _last_first_token(server: Server, shared: str) -> float:
    bodies = [chat_body(f"{shared} agent {agent}", max_tokens=_ANSWER_TOKENS) for agent in range(_NUM_AGENTS)]
    started = time.perf_counter()
    streams = await asyncio.gather(*(run_stream(server.port, body) for body in bodies))
    return max(stream.events[0] for stream in streams) - started


def _usage(server: Server, text: str) -> int:
    body = chat_body(text, max_tokens=_ANSWER_TOKENS) | {"stream": False}
    address = f"http://127.0.0.1:{server.port}/v1/chat/completions"
    request = urllib.request.Request(address, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return int(json.load(answer)["usage"]["total_tokens"])


def _num_prompt_tokens(server: Server) -> int:
    """Return the computed prompt tokens; 0 for other servers."""
    return int(_stats(server)["num_prompt_tokens"]) if server.name == "mlxctl" else 0


def _stats(server: Server) -> dict[str, int]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/stats") as answer:
        found: dict[str, int] = json.load(answer)
    return found


def _kv_bytes_per_token(model: Path) -> int:
    config = json.loads((model / "config.json").read_text())
    # Keys and values in float32, as in the generated models.
    return int(config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"] * 2 * 4)


def _milliseconds(ours: Sequence[float], theirs: Sequence[float]) -> str:
    return f"{statistics.median(ours) * 1e3:.1f} and {statistics.median(theirs) * 1e3:.1f} ms"

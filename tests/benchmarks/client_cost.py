"""CPU cost of the benchmark client at about 1,000 tokens/s."""

import asyncio
import statistics
import time
from collections.abc import Iterator

from mlxctl.bench.client import run_stream
from mlxctl.bench.endpoint import ChatEndpoint
from tests.bench.fixed_rate_server import fixed_rate_server
from tests.benchmarks.rounds import Finding, Ratio

_NUM_STREAMS = 16
_NUM_TOKENS = 400
_PAUSE_SECONDS = 0.01


def client_cost(*, rounds: int) -> Iterator[Finding]:
    """Yield the share of a core per 1,000 tokens/s.

    The server runs in another thread, whose time is not counted.
    """
    shares, rates = [], []
    with fixed_rate_server(pause_seconds=_PAUSE_SECONDS) as server:
        endpoint = ChatEndpoint.of(server.url)
        for _ in range(rounds):
            cpu, wall = time.thread_time(), time.perf_counter()
            num_tokens = asyncio.run(_read(endpoint))
            shares.append((time.thread_time() - cpu) / num_tokens * 1000)
            rates.append(num_tokens / (time.perf_counter() - wall))
    ratio = Ratio(statistics.median(shares), min(shares), max(shares))
    yield Finding(
        "bench client: core for 1,000 tokens/s",
        ratio,
        0.03,
        False,
        f"{statistics.median(rates):,.0f} tokens/s",
    )


async def _read(endpoint: ChatEndpoint) -> int:
    body = {"messages": [], "max_tokens": _NUM_TOKENS}
    streams = await asyncio.gather(*(run_stream(endpoint, body) for _ in range(_NUM_STREAMS)))
    return sum(stream.num_counted for stream in streams)

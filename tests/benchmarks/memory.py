"""Growth of resident memory over many requests."""

import asyncio
import time
from pathlib import Path

from tests.benchmarks.load import chat_body, run_stream
from tests.benchmarks.rounds import Finding, Ratio
from tests.benchmarks.servers import Server, mlxctl_server, process_tree

_AT_ONCE = 16
# The engine returns what the allocator holds unused a second after its last work.
_REST_SECONDS = 4.0


def growth(model: Path, family: str, *, num_requests: int) -> Finding:
    """Return memory after `num_requests`, relative to a fifth of them."""
    with mlxctl_server(model) as server:
        asyncio.run(_requests(server, num_requests // 5))
        before = _resident_bytes(server)
        asyncio.run(_requests(server, num_requests - num_requests // 5))
        after = _resident_bytes(server)
    ratio = Ratio(after / before, after / before, after / before)
    name = f"{family}: resident memory after {num_requests} requests / after {num_requests // 5}"
    return Finding(name, ratio, 1.05, False, f"{after / 1e6:.0f} and {before / 1e6:.0f} MB")


async def _requests(server: Server, num: int) -> None:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(index: int) -> None:
        async with slots:
            await run_stream(
                server.port, chat_body("word " * (index * 7 % 60 + 1), max_tokens=1 + index % 13)
            )

    await asyncio.gather(*(one(index) for index in range(num)))


def _resident_bytes(server: Server) -> int:
    """Return the resident bytes of front and engine at rest, from /proc."""
    time.sleep(_REST_SECONDS)
    return sum(_pages(pid) for pid in process_tree(server.process.pid)) * 4096


def _pages(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])

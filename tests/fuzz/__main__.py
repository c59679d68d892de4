"""`python -m tests.fuzz`: ten thousand fuzzed requests against one server.

Writes bench_results/fuzz.json with --save.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mlxctl import __version__
from tests.server.process import ServerProcess, serving
from tests.tiny_models import model

from .mutations import FuzzedRequest, requests
from .target import with_short_context
from .volley import AT_ONCE, Volley

_PREFIX_CACHE_BYTES = 4 << 20
_RESULTS = Path(__file__).parents[2] / "bench_results" / "fuzz.json"


def main() -> None:
    """Send fuzzed requests and report statuses and leftovers."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--save", action="store_true", help=f"write {_RESULTS.name} into bench_results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        target = with_short_context(model("endless"), Path(scratch) / "short")
        # Full after some hundred requests: what grows after that is a leak, not a cache that fills.
        with serving(target, MLXCTL_ENGINE_PREFIX_CACHE_BYTES=str(_PREFIX_CACHE_BYTES)) as server:
            record = _fuzz(server, num_requests=options.requests)
    text = json.dumps({"mlxctl": __version__, **record}, indent=2) + "\n"
    print(text)
    if options.save:
        _RESULTS.write_text(text)


def _fuzz(server: ServerProcess, *, num_requests: int) -> dict[str, Any]:
    volley = Volley(server.url)
    memory: list[dict[str, int]] = []
    started = time.monotonic()

    # What fails here is in the message, and shrinking it would send ten thousand more.
    @settings(
        max_examples=num_requests // AT_ONCE,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(requests(), min_size=AT_ONCE, max_size=AT_ONCE))
    def send(batch: list[FuzzedRequest]) -> None:
        volley.send(batch)
        if volley.num_sent % (num_requests // 5 // AT_ONCE * AT_ONCE) == 0:
            memory.append(_resident(server))
            print(volley.num_sent, memory[-1], flush=True)

    send()
    left = volley.leftovers()
    seconds = time.monotonic() - started
    health = httpx.get(f"{server.url}/readyz").status_code
    volley.close()
    return {
        "num_requests": volley.num_sent,
        "num_left_early": volley.num_left_early,
        "seconds": round(seconds, 1),
        "slowest_seconds": round(volley.slowest_seconds, 2),
        "left_over": left,
        "readyz_afterwards": health,
        "resident_bytes_by_fifths": memory,
        "answers": dict(sorted(volley.statuses.items())),
    }


def _resident(server: ServerProcess) -> dict[str, int]:
    """Return the resident memory of both processes, in bytes."""
    pids = {"front": server.process.pid, "engine": server.engine_pid()}
    statuses = {name: Path(f"/proc/{pid}/status").read_text() for name, pid in pids.items()}
    return {name: int(status.split("VmRSS:")[1].split()[0]) * 1024 for name, status in statuses.items()}


if __name__ == "__main__":
    main()

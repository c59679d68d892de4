"""`python -m tests.benchmarks.against SCENARIO`: a bench scenario beside other servers.

Each comparison is one run of `mlxctl bench SCENARIO` in alternating rounds: ours is target A, the other
server B. It is followed by the CPU seconds of both servers, which other load on the machine changes less than
wall time. Options after `--` go to the scenario. `RAPID_MLX` names the program of rapid-mlx; without it, and
without `rapid-mlx` on PATH, that server is left out.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tests import tiny_models
from tests.benchmarks.servers import Server, mlx_lm_server, mlxctl_server, rapid_mlx_server
from tests.real_models import smollm2

SCENARIOS = ("throughput", "latency", "prefix", "agents", "arrivals", "burst", "contention", "mixed")

# The small one shows the cost of serving; with the pretrained one computing costs more.
MODELS = {"bench5m": lambda: tiny_models.model("bench5m"), "smollm2": smollm2}

OpenServer = Callable[[Path], AbstractContextManager[Server]]


def other_servers() -> dict[str, OpenServer]:
    """Return the servers that are installed, by name."""
    servers: dict[str, OpenServer] = {"mlx_lm.server": mlx_lm_server}
    program = os.environ.get("RAPID_MLX") or shutil.which("rapid-mlx")
    if program:
        servers["rapid-mlx"] = lambda model: rapid_mlx_server(model, program=program)
    return servers


def compare(scenario: str, name: str, open_other: OpenServer, *, options: argparse.Namespace) -> int:
    """Run the scenario against one server; return the bench's exit code."""
    model = MODELS[options.model]()
    out = options.out / f"{scenario}-{name.replace('_', '-').replace('.', '-')}.json"
    with mlxctl_server(model) as ours, open_other(model) as other:
        command = [
            *(sys.executable, "-m", "mlxctl", "bench", scenario, "--rounds", str(options.rounds)),
            *("--url", f"http://127.0.0.1:{ours.port}", "--against", f"http://127.0.0.1:{other.port}"),
            *("--against-model", other.model, "--out", str(out), *options.scenario_options),
        ]
        before = ours.cpu_seconds, other.cpu_seconds
        code = subprocess.run(command, check=False).returncode
        one, two = ours.cpu_seconds - before[0], other.cpu_seconds - before[1]
        print(f"CPU seconds: A {one:.1f}, B {two:.1f}, A / B {one / two:.2f}", file=sys.stderr)
        return code


def main() -> None:
    """Compare with every chosen server; exit 1 if a run failed."""
    servers = other_servers()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--servers", nargs="+", choices=sorted(servers), default=sorted(servers))
    parser.add_argument("--model", choices=MODELS, default="bench5m")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench_results"))
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:end])
    options.scenario_options = sys.argv[end + 1 :]
    codes = [compare(options.scenario, name, servers[name], options=options) for name in options.servers]
    sys.exit(int(any(codes)))


if __name__ == "__main__":
    main()

"""The scenarios: each asks one question about a server, in rounds."""

from mlxctl.bench.scenarios.agents import Agents
from mlxctl.bench.scenarios.arrivals import Arrivals
from mlxctl.bench.scenarios.burst import Burst
from mlxctl.bench.scenarios.contention import Contention
from mlxctl.bench.scenarios.latency import Latency
from mlxctl.bench.scenarios.mixed import Mixed
from mlxctl.bench.scenarios.prefix import Prefix
from mlxctl.bench.scenarios.scenario import Chart, Sample, Scenario
from mlxctl.bench.scenarios.throughput import Throughput

__all__ = [
    "Agents",
    "Arrivals",
    "Burst",
    "Chart",
    "Contention",
    "Latency",
    "Mixed",
    "Prefix",
    "Sample",
    "Scenario",
    "Throughput",
]

"""The scenarios: each asks one question about a server, in rounds."""

from mlxctl.bench.scenarios.latency import Latency
from mlxctl.bench.scenarios.scenario import Chart, Sample, Scenario
from mlxctl.bench.scenarios.throughput import Throughput

__all__ = ["Chart", "Latency", "Sample", "Scenario", "Throughput"]

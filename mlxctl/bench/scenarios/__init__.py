"""Scenarios of `mlxctl bench`, and what they have in common."""

from typing import Any, Protocol

from mlxctl.bench.figures import Chart, Figure, Sample
from mlxctl.bench.prompts import Prompts
from mlxctl.bench.scenarios.agent_trace import AgentTrace
from mlxctl.bench.scenarios.agents import Agents
from mlxctl.bench.scenarios.arrivals import Arrivals
from mlxctl.bench.scenarios.burst import Burst
from mlxctl.bench.scenarios.contention import Contention
from mlxctl.bench.scenarios.latency import Latency
from mlxctl.bench.scenarios.mixed import Mixed
from mlxctl.bench.scenarios.prefix import Prefix
from mlxctl.bench.scenarios.speculation import Speculation
from mlxctl.bench.scenarios.speech import Speech
from mlxctl.bench.scenarios.throughput import Throughput
from mlxctl.bench.scenarios.transcription import Transcription
from mlxctl.bench.target import BenchTarget

__all__ = [
    "AgentTrace",
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
    "Speculation",
    "Speech",
    "Throughput",
    "Transcription",
]


class Scenario(Protocol):
    """One kind of measurement. Frozen; shared by all targets."""

    @property
    def name(self) -> str:
        """Name of the scenario's command under `mlxctl bench`."""

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Everything that a round may measure."""

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Charts for the report."""

    @property
    def settings(self) -> dict[str, Any]:
        """The user's options, stored with the result."""

    async def measure(self, target: BenchTarget, prompts: Prompts, key: str) -> Sample:
        """Run the scenario once and return its figures.

        `key` differs between rounds and is the same for both targets. Figures that could not be measured are
        omitted. Raises MlxctlError when the server fails.
        """

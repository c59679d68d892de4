"""Benchmark of `mlxctl probe`: total time and time per phase."""

import asyncio
import os
import re
import sys
import tempfile
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mlxctl.bench.environment import describe_environment
from mlxctl.bench.figures import Figure, Sample
from mlxctl.bench.result import MeasuredServer, Result
from mlxctl.bench.run import cancel_on_signals
from mlxctl.bench.runner import (
    Observer,
    Rounds,
    iterations,
    keep_finished_rounds,
    measure_client_cost,
    measurements,
)
from mlxctl.bench.scenarios import Chart
from mlxctl.ir.errors import EngineDied, SettingsError
from mlxctl.library import describe_model, this_machine

_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTimes:
    """Duration of one probe in seconds: total, and by phase.

    `path` is the directory of the probed model.
    """

    model: str
    path: Path
    seconds: float
    phases: dict[str, float]

    @property
    def sample(self) -> Sample:
        """Durations by figure name.

        `command` is the time outside all phases: starting Python and exiting.
        """
        phases = {figure_name(phase): seconds for phase, seconds in self.phases.items()}
        return {
            "probe": self.seconds,
            **phases,
            "command": max(0.0, self.seconds - sum(self.phases.values())),
        }


class _ProbeReport(msgspec.Struct):
    """The used fields of `mlxctl probe --json`."""

    model: str
    path: str | None
    phases: dict[str, float]
    problem: str | None


class ProbeCommand:
    """Runs `mlxctl probe` for one model in a temporary state directory."""

    def __init__(self, model: str) -> None:
        self._arguments = ("probe", model, "--force", "--json")

    async def run(self) -> ProbeTimes:
        """Probe the model once.

        Raises SettingsError with the command's error message.
        """
        with tempfile.TemporaryDirectory(prefix="mlxctl-bench-") as state:
            started = time.perf_counter()
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "mlxctl", *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env={**os.environ, "XDG_STATE_HOME": state},
                # Ctrl-C goes to the benchmark only, which stops the probe itself.
                start_new_session=True,
            )  # fmt: skip
            try:
                stdout, stderr = await process.communicate()
            finally:
                await _end(process)
            seconds = time.perf_counter() - started
        return _read(seconds, stdout, stderr)


def figure_name(phase: str) -> str:
    """Return the figure name of a phase: `its_template` for `its template`."""
    return re.sub(r"\W+", "_", phase.lower())


def _read(seconds: float, stdout: bytes, stderr: bytes) -> ProbeTimes:
    try:
        (report,) = msgspec.json.decode(stdout, type=list[_ProbeReport])
    except (msgspec.MsgspecError, ValueError):
        lines = stderr.decode(errors="replace").strip().splitlines() or ["it gave no reason"]
        raise EngineDied(f"`mlxctl probe` failed: {lines[-1].removeprefix('mlxctl: ')}") from None
    if report.problem is not None:
        raise SettingsError(report.problem)
    return ProbeTimes(
        model=report.model, path=Path(report.path or report.model), seconds=seconds, phases=report.phases
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    """Terminate the process gracefully; kill it after a timeout."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()


_LABEL = "A"


def run_probe_bench(model: str, *, num_rounds: int, num_warmups: int, observer: Observer) -> Result:
    """Probe the model repeatedly; Ctrl-C ends with a partial result.

    Raises MlxctlError when nothing was measured.
    """
    return asyncio.run(_run(model, num_rounds, num_warmups, observer))


async def _run(model: str, num_rounds: int, num_warmups: int, observer: Observer) -> Result:
    cancel_on_signals()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    environment = await asyncio.to_thread(lambda: describe_environment(this_machine()))
    rounds = Rounds(samples={_LABEL: []})
    last = ProbeTimes(model=model, path=Path(model), seconds=0.0, phases={})
    command = ProbeCommand(model)
    with keep_finished_rounds(rounds):
        for iteration in iterations(num_rounds=num_rounds, num_warmups=num_warmups):
            observer.begin(iteration.label, _LABEL)
            with measure_client_cost(rounds) if iteration.is_measured else nullcontext():
                last = await command.run()
            observer.end(iteration.label, _LABEL, is_last=True)
            if iteration.is_measured:
                rounds.samples[_LABEL].append(last.sample)
    described = await asyncio.to_thread(describe_model, last.path)
    return Result(
        scenario="probe",
        started=started,
        is_partial=rounds.problem is not None,
        problem=rounds.problem,
        num_rounds=rounds.num_finished,
        num_rounds_wanted=num_rounds,
        settings={"num_warmups": num_warmups},
        environment=environment,
        servers=(
            MeasuredServer(
                label=_LABEL,
                name="mlxctl probe",
                url="",
                model=last.model,
                context_length=described.context_length,
                num_parameters=described.weights.num_parameters if described.weights else None,
                number_format=described.number_format,
            ),
        ),
        measurements=measurements(_figures(last), rounds),
        ratios=(),
        charts=(_chart(last),),
        client=rounds.client,
        ceiling=None,
        notes=(),
    )


def _figures(times: ProbeTimes) -> tuple[Figure, ...]:
    return (
        Figure(name="probe", unit="s", better="lower", meaning="the whole command"),
        *(
            Figure(
                name=figure_name(phase),
                unit="s",
                better="lower",
                meaning=_MEANINGS.get(phase, f"questions about {phase}"),
            )
            for phase in times.phases
        ),
        Figure(
            name="command", unit="s", better="lower", meaning="starting the command, printing the answers"
        ),
    )


def _chart(times: ProbeTimes) -> Chart:
    names = [*times.phases, "command"]
    return Chart(title="where the time goes", bars=tuple((name, figure_name(name)) for name in names))


_MEANINGS = {
    "files": "reading the model's files",
    "loading": "starting an engine, loading",
    "ending": "ending the engine",
}

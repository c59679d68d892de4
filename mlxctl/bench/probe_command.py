"""`mlxctl probe` as a child process that is timed: one model, asked everything anew, with a state of its own."""

import asyncio
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass

import msgspec

from mlxctl.bench.scenarios.scenario import Sample
from mlxctl.errors import EngineDied, SettingsError

_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTimes:
    """How long one probe took: the whole command, and the phases that it tells of itself, by their names."""

    model: str
    seconds: float
    phases: dict[str, float]

    @property
    def sample(self) -> Sample:
        """Return it as figures: `probe`, each phase, and as `command` what is in no phase: starting Python,
        and the way out.
        """
        phases = {figure_name(phase): seconds for phase, seconds in self.phases.items()}
        return {
            "probe": self.seconds,
            **phases,
            "command": max(0.0, self.seconds - sum(self.phases.values())),
        }


class _Told(msgspec.Struct):
    """What is read of the JSON that the command prints for a model."""

    model: str
    phases: dict[str, float]
    problem: str | None


class ProbeCommand:
    """Runs the command for one model, again and again.

    What it finds out is thrown away: a person's own store is not touched.
    """

    def __init__(self, model: str) -> None:
        self._arguments = ("probe", model, "--force", "--json")

    async def run(self) -> ProbeTimes:
        """Probe the model once.

        Raises SettingsError with the command's own words when it could not be asked.
        """
        with tempfile.TemporaryDirectory(prefix="mlxctl-bench-") as state:
            started = time.perf_counter()
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "mlxctl", *self._arguments,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env={**os.environ, "XDG_STATE_HOME": state},
                # Ctrl-C is for the bench, which ends the probe itself.
                start_new_session=True,
            )  # fmt: skip
            try:
                stdout, stderr = await process.communicate()
            finally:
                await _end(process)
            seconds = time.perf_counter() - started
        return _read(seconds, stdout, stderr)


def figure_name(phase: str) -> str:
    """Return the name of the figure for a phase, such as `its_template` for `its template`."""
    return re.sub(r"\W+", "_", phase.lower())


def _read(seconds: float, stdout: bytes, stderr: bytes) -> ProbeTimes:
    try:
        (told,) = msgspec.json.decode(stdout, type=list[_Told])
    except (msgspec.MsgspecError, ValueError):
        lines = stderr.decode(errors="replace").strip().splitlines() or ["it gave no reason"]
        raise EngineDied(f"`mlxctl probe` failed: {lines[-1].removeprefix('mlxctl: ')}") from None
    if told.problem is not None:
        raise SettingsError(told.problem)
    return ProbeTimes(model=told.model, seconds=seconds, phases=told.phases)


async def _end(process: asyncio.subprocess.Process) -> None:
    """See that it is over; who is interrupted lets it end its engine."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.communicate()
    except TimeoutError:
        process.kill()

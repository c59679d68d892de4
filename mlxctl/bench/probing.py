"""How long `mlxctl probe` takes for a model, and what of that each phase takes: rounds of the whole command."""

import asyncio
from contextlib import nullcontext
from datetime import UTC, datetime

from mlxctl.bench.environment import describe_environment
from mlxctl.bench.figures import Figure
from mlxctl.bench.probe_command import ProbeCommand, ProbeTimes, figure_name
from mlxctl.bench.result import MeasuredServer, Result
from mlxctl.bench.run import cancel_on_signals
from mlxctl.bench.runner import Observer, Rounds, counted, keeping_what_is_over, measurements, turns
from mlxctl.bench.scenarios import Chart
from mlxctl.models import this_machine

_LABEL = "A"


def run_probing(model: str, *, num_rounds: int, num_warmups: int, observer: Observer) -> Result:
    """Probe it again and again; Ctrl-C ends it early with a partial result.

    Raises MlxctlError when nothing could be measured.
    """
    return asyncio.run(_run(model, num_rounds, num_warmups, observer))


async def _run(model: str, num_rounds: int, num_warmups: int, observer: Observer) -> Result:
    cancel_on_signals()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    environment = await asyncio.to_thread(lambda: describe_environment(this_machine()))
    rounds, last = Rounds(samples={_LABEL: []}), ProbeTimes(model=model, seconds=0.0, phases={})
    command = ProbeCommand(model)
    with keeping_what_is_over(rounds):
        for turn in turns(num_rounds=num_rounds, num_warmups=num_warmups):
            observer.begin(turn.what, _LABEL)
            with counted(rounds) if turn.counts else nullcontext():
                last = await command.run()
            observer.end(turn.what, _LABEL, is_last=True)
            if turn.counts:
                rounds.samples[_LABEL].append(last.sample)
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
            MeasuredServer(label=_LABEL, name="mlxctl probe", url="", model=last.model, context_length=None),
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

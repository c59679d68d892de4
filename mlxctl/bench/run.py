"""One run from options to a result: open the servers, measure in rounds, close what was opened, describe it
all.
"""

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mlxctl.bench.environment import describe_environment
from mlxctl.bench.prompts import Prompts
from mlxctl.bench.result import Ceiling, MeasuredServer, Result
from mlxctl.bench.runner import Observer, measurements, paired_ratios, run_rounds
from mlxctl.bench.scenarios import Scenario
from mlxctl.bench.server_process import ServerSubprocess
from mlxctl.bench.target import BenchTarget, open_target
from mlxctl.models import Machine, ModelDescription, fit_model, this_machine

# A prediction for the short contexts that most scenarios have.
_CEILING_CONTEXT_TOKENS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChoice:
    """A server behind a URL, or one of our own that is started with `serve_arguments` when there is none."""

    url: str | None = None
    api_key: str | None = None
    model: str | None = None
    serve_arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Whom to measure, how often, and what the results need to know.

    `described` is the model of our own server.
    """

    servers: tuple[ServerChoice, ...]
    num_rounds: int = 5
    num_warmups: int = 1
    seed: int = 1
    bandwidth_bytes_per_second: float | None = None
    described: ModelDescription | None = None


def run_bench(scenario: Scenario, options: RunOptions, observer: Observer) -> Result:
    """Run it; Ctrl-C ends it early with a partial result.

    Raises MlxctlError when nothing could be measured.
    """
    return asyncio.run(_run(scenario, options, observer))


async def _run(scenario: Scenario, options: RunOptions, observer: Observer) -> Result:
    cancel_on_signals()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    machine = await asyncio.to_thread(this_machine)
    environment = await asyncio.to_thread(describe_environment, machine)
    prompts = Prompts(seed=options.seed, nonce=secrets.token_hex(6))
    async with AsyncExitStack() as opened:
        targets = [
            await opened.enter_async_context(_opened(label, choice, observer))
            for label, choice in zip("AB", options.servers, strict=False)
        ]
        for target in targets:
            target.is_last = target is targets[-1]
        rounds = await run_rounds(
            scenario,
            targets,
            prompts,
            observer,
            num_rounds=options.num_rounds,
            num_warmups=options.num_warmups,
        )
    settings = {
        "seed": options.seed,
        "nonce": prompts.nonce,
        "num_warmups": options.num_warmups,
        **scenario.settings,
    }
    return Result(
        scenario=scenario.name,
        started=started,
        is_partial=rounds.problem is not None,
        problem=rounds.problem,
        num_rounds=rounds.num_finished,
        num_rounds_wanted=options.num_rounds,
        settings=settings | {"serve_arguments": [list(choice.serve_arguments) for choice in options.servers]},
        environment=environment,
        servers=tuple(map(_server, targets)),
        measurements=measurements(scenario.figures, rounds),
        ratios=paired_ratios(scenario, rounds),
        charts=scenario.charts,
        client=rounds.client,
        ceiling=_ceiling(options, machine),
        notes=tuple(note for target in targets for note in target.notes),
    )


@asynccontextmanager
async def _opened(label: str, choice: ServerChoice, observer: Observer) -> AsyncIterator[BenchTarget]:
    """Give the target, and end what was started for it."""
    observer.open(label, choice.url)
    if choice.url is not None:
        yield await open_target(label, choice.url, model=choice.model, api_key=choice.api_key)
        return
    server = ServerSubprocess(choice.serve_arguments)
    try:
        target = await open_target(label, await server.start(), name="mlxctl serve")
        target.restarter = server
        yield target
    finally:
        await server.close()


def cancel_on_signals() -> None:
    """Let a closed terminal and `kill` end the run as Ctrl-C does, which asyncio sees to itself."""
    task = asyncio.current_task()
    assert task is not None, "runs as a task"
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def _ceiling(options: RunOptions, machine: Machine) -> Ceiling | None:
    if options.described is None:
        return None
    return speed_ceiling(
        options.described,
        machine,
        context_tokens=_CEILING_CONTEXT_TOKENS,
        bandwidth_bytes_per_second=options.bandwidth_bytes_per_second,
    )


def _server(target: BenchTarget) -> MeasuredServer:
    return MeasuredServer(
        label=target.label,
        name=target.name,
        url=target.endpoint.base_url,
        model=target.model,
        context_length=target.context_length,
    )


def speed_ceiling(
    model: ModelDescription,
    machine: Machine,
    *,
    context_tokens: int,
    bandwidth_bytes_per_second: float | None,
) -> Ceiling | None:
    """Return the ceiling; a bandwidth that a person gave wins over the published one.

    None when nobody knows the bandwidth.
    """
    if bandwidth_bytes_per_second is not None:
        machine = replace(machine, bandwidth_bytes_per_second=bandwidth_bytes_per_second)
    fit = fit_model(model, machine, context_tokens=context_tokens)
    if fit is None or fit.predicted_tokens_per_second is None or machine.bandwidth_bytes_per_second is None:
        return None
    return Ceiling(
        tokens_per_second=fit.predicted_tokens_per_second,
        context_tokens=context_tokens,
        bandwidth_bytes_per_second=machine.bandwidth_bytes_per_second,
        source="as given" if bandwidth_bytes_per_second is not None else f"published for {machine.chip}",
    )

"""One benchmark run: open servers, measure in rounds, build the result."""

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mlxctl import __version__
from mlxctl.bench.environment import describe_environment
from mlxctl.bench.prompts import Prompts
from mlxctl.bench.result import Ceiling, Result
from mlxctl.bench.runner import Observer, measurements, paired_ratios, run_rounds
from mlxctl.bench.scenarios import Scenario
from mlxctl.bench.server_facts import describe_server
from mlxctl.bench.server_process import ServerSubprocess
from mlxctl.bench.target import BenchTarget, open_target
from mlxctl.ir import Purpose
from mlxctl.library import Machine, ModelDescription, fit_model, this_machine
from mlxctl.library.fingerprint import fingerprint
from mlxctl.state.stores import MeasuredSpeed

# Models that scenarios measure; the others measure text.
_PURPOSES: dict[str, Purpose] = {"speech": "speech", "transcription": "transcription"}
# Context length of the predicted ceiling; most scenarios have short contexts.
_CEILING_CONTEXT_TOKENS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChoice:
    """A server by URL, or one to start with `serve_arguments`."""

    url: str | None = None
    api_key: str | None = None
    model: str | None = None
    serve_arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Servers, rounds and further facts of a run.

    `described` is the model of a server that the run starts; `has_serve_options`: with further options.
    """

    servers: tuple[ServerChoice, ...]
    num_rounds: int = 5
    num_warmups: int = 1
    seed: int = 1
    bandwidth_bytes_per_second: float | None = None
    described: ModelDescription | None = None
    has_serve_options: bool = False


def run_bench(scenario: Scenario, options: RunOptions, observer: Observer) -> Result:
    """Run a scenario; Ctrl-C ends with a partial result.

    Raises MlxctlError when nothing was measured.
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
            await opened.enter_async_context(
                _opened(label, choice, observer, purpose=_PURPOSES.get(scenario.name, "text"))
            )
            for label, choice in zip("AB", options.servers, strict=False)
        ]
        for target in targets:
            target.is_last = target is targets[-1]
        servers = [await describe_server(target) for target in targets]
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
        servers=tuple(servers),
        measurements=measurements(scenario.figures, rounds),
        ratios=paired_ratios(scenario, rounds),
        charts=scenario.charts,
        client=rounds.client,
        ceiling=_ceiling(options, machine),
        notes=tuple(note for target in targets for note in target.notes),
    )


@asynccontextmanager
async def _opened(
    label: str, choice: ServerChoice, observer: Observer, *, purpose: Purpose
) -> AsyncIterator[BenchTarget]:
    """Yield the target; stop the server that was started for it."""
    observer.open(label, choice.url)
    if choice.url is not None:
        yield await open_target(
            label, choice.url, model=choice.model, api_key=choice.api_key, purpose=purpose
        )
        return
    server = ServerSubprocess(choice.serve_arguments)
    try:
        target = await open_target(label, await server.start(), name="mlxctl serve", purpose=purpose)
        target.restarter = server
        yield target
    finally:
        await server.close()


def cancel_on_signals() -> None:
    """Cancel the run on SIGTERM and SIGHUP, as Ctrl-C does."""
    task = asyncio.current_task()
    assert task is not None, "runs as a task"
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def measured_speed(result: Result, options: RunOptions) -> MeasuredSpeed | None:
    """Return the speed of one stream of the started server.

    None for a partial result, or without that figure.
    A server with further options may be slower or faster than the model usually is.
    """
    decode, prompt = result.find("decode_tokens_per_second_x1"), result.find("prompt_tokens_per_second")
    model = options.described
    if decode is None or model is None or result.is_partial or options.has_serve_options:
        return None
    return MeasuredSpeed(
        fingerprint=fingerprint(model.path),
        machine=this_machine().label,
        model=model.name,
        decode_tokens_per_second=decode.median,
        prompt_tokens_per_second=prompt.median if prompt else None,
        context_tokens=int(result.settings.get("prompt_tokens", 0)),
        measured_at=datetime.fromisoformat(result.started).timestamp(),
        version=__version__,
    )


def _ceiling(options: RunOptions, machine: Machine) -> Ceiling | None:
    if options.described is None:
        return None
    return speed_ceiling(
        options.described,
        machine,
        context_tokens=_CEILING_CONTEXT_TOKENS,
        bandwidth_bytes_per_second=options.bandwidth_bytes_per_second,
    )


def speed_ceiling(
    model: ModelDescription,
    machine: Machine,
    *,
    context_tokens: int,
    bandwidth_bytes_per_second: float | None,
) -> Ceiling | None:
    """Return the ceiling; None when the memory bandwidth is unknown.

    A given bandwidth takes precedence over the published one.
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

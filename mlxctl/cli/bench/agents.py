"""`mlxctl bench agents`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.bench.scenario_command import scenario_command
from mlxctl.cli.lazy import create_app

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Scenario

app = create_app()


@app.command(
    epilog="Example: mlxctl bench agents --turns 30 --system-tokens 8000 --url http://127.0.0.1:8080"
)
@scenario_command
def agents(
    turns: Annotated[
        int,
        typer.Option(
            min=0, max=500, metavar="NUMBER", help="Tool results of the session, one after the other."
        ),
    ] = 12,
    agents_at_once: Annotated[
        int, typer.Option(min=1, max=256, metavar="NUMBER", help="Agents that then start at once.")
    ] = 4,
    system_tokens: Annotated[
        int, typer.Option(min=1, metavar="TOKENS", help="Length of their shared instructions.")
    ] = 2000,
    result_tokens: Annotated[
        int, typer.Option(min=1, metavar="TOKENS", help="Length of each tool result.")
    ] = 300,
    answer_tokens: Annotated[int, typer.Option(min=1, metavar="TOKENS", help="Length of each answer.")] = 48,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Replay recorded sessions instead: a file or directory of agent traces (.json, as AIPerf's) "
            "or chat requests (.jsonl).",
        ),
    ] = None,
    think_seconds: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="Keep recorded waits between turns up to this length."),
    ] = 0.0,
    scale: Annotated[
        float, typer.Option(min=0.001, max=1, metavar="SHARE", help="Share of the recorded lengths to use.")
    ] = 1.0,
) -> "Scenario":
    """Coding agents: one session, then several at once on a cold prefix."""
    from mlxctl.bench.scenarios import Agents, AgentTrace
    from mlxctl.bench.traces import read_traces

    if trace is not None:
        return AgentTrace(
            path=trace,
            sessions=tuple(read_traces(trace)),
            num_agents=agents_at_once,
            max_think_seconds=think_seconds,
            scale=scale,
        )
    return Agents(
        num_turns=turns,
        num_agents=agents_at_once,
        system_tokens=system_tokens,
        result_tokens=result_tokens,
        answer_tokens=answer_tokens,
    )

"""`mlxctl bench latency`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.bench.scenario_command import scenario_command
from mlxctl.cli.lazy import create_app

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Scenario

app = create_app()


@app.command(epilog="Example: mlxctl bench latency --url http://127.0.0.1:8080 --requests 50")
@scenario_command
def latency(
    requests: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="NUMBER", help="Requests a round, one after the other.")
    ] = 20,
    prompt_tokens: Annotated[int, typer.Option(min=1, metavar="TOKENS", help="Length of each prompt.")] = 128,
    answer_tokens: Annotated[int, typer.Option(min=2, metavar="TOKENS", help="Length of each answer.")] = 64,
) -> "Scenario":
    """Latency of one client: first token, next token, whole answer."""
    from mlxctl.bench.scenarios import Latency

    return Latency(num_requests=requests, prompt_tokens=prompt_tokens, answer_tokens=answer_tokens)

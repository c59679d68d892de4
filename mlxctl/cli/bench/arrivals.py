"""`mlxctl bench arrivals`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.bench.scenario_command import scenario_command
from mlxctl.cli.lazy import create_app

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Scenario

app = create_app()


@app.command(epilog="Example: mlxctl bench arrivals --rate 4 --requests 100 --against http://127.0.0.1:8081")
@scenario_command
def arrivals(
    rate: Annotated[
        float, typer.Option(min=0.01, max=1000, metavar="NUMBER", help="Requests a second, on average.")
    ] = 2.0,
    requests: Annotated[int, typer.Option(min=1, max=10000, metavar="NUMBER", help="Requests a round.")] = 32,
    prompt_tokens: Annotated[
        int, typer.Option(min=1, metavar="TOKENS", help="Length of the longest prompts.")
    ] = 512,
    answer_tokens: Annotated[
        int, typer.Option(min=2, metavar="TOKENS", help="Length of the longest answers.")
    ] = 128,
    ttft_ms: Annotated[
        float, typer.Option(min=1, metavar="MS", help="Latest first token of a good request.")
    ] = 1000.0,
    token_ms: Annotated[
        float, typer.Option(min=0.1, metavar="MS", help="Longest mean time of its further tokens.")
    ] = 100.0,
) -> "Scenario":
    """Requests at random times at a given rate, and their goodput."""
    from mlxctl.bench.scenarios import Arrivals

    return Arrivals(
        rate=rate,
        num_requests=requests,
        prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens,
        ttft_ms=ttft_ms,
        token_ms=token_ms,
    )

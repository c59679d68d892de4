"""`mlxctl bench mixed`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.bench.scenario_command import scenario_command
from mlxctl.cli.lazy import create_app

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Scenario

app = create_app()


@app.command(epilog="Example: mlxctl bench mixed --clients 16 --requests 100 --seed 7")
@scenario_command
def mixed(
    requests: Annotated[int, typer.Option(min=1, max=10000, metavar="NUMBER", help="Requests a round.")] = 32,
    clients: Annotated[
        int,
        typer.Option(min=1, max=1024, metavar="NUMBER", help="Clients that send requests at the same time."),
    ] = 8,
    prompt_tokens: Annotated[
        int, typer.Option(min=1, metavar="TOKENS", help="Length of the longest prompts.")
    ] = 2048,
    answer_tokens: Annotated[
        int, typer.Option(min=1, metavar="TOKENS", help="Length of the longest answers.")
    ] = 256,
) -> "Scenario":
    """Mixed prompt and answer lengths from several clients."""
    from mlxctl.bench.scenarios import Mixed

    return Mixed(
        num_requests=requests, num_clients=clients, prompt_tokens=prompt_tokens, answer_tokens=answer_tokens
    )

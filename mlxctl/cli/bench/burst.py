"""`mlxctl bench burst`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.bench.scenario_command import scenario_command
from mlxctl.cli.lazy import create_app

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Scenario

app = create_app()


@app.command(epilog="Example: mlxctl bench burst --requests 8 --against http://127.0.0.1:8081")
@scenario_command
def burst(
    requests: Annotated[
        int, typer.Option(min=1, max=1024, metavar="NUMBER", help="Requests sent at once.")
    ] = 16,
    prompt_tokens: Annotated[int, typer.Option(min=1, metavar="TOKENS", help="Length of each prompt.")] = 100,
    answer_tokens: Annotated[int, typer.Option(min=1, metavar="TOKENS", help="Length of each answer.")] = 256,
    restart: Annotated[
        bool, typer.Option(help="Restart the server in every round, for a burst on a fresh server.")
    ] = True,
) -> "Scenario":
    """Many new prompts at once, after a restart and after one stream."""
    from mlxctl.bench.scenarios import Burst

    return Burst(
        num_requests=requests, prompt_tokens=prompt_tokens, answer_tokens=answer_tokens, restarts=restart
    )

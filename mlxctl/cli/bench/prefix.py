"""`mlxctl bench prefix`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.bench.scenario_command import scenario_command
from mlxctl.cli.lazy import create_app

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Scenario

app = create_app()


@app.command(epilog="Example: mlxctl bench prefix --prompt-tokens 16000 --model mlx-community/Qwen3-8B-4bit")
@scenario_command
def prefix(
    prompt_tokens: Annotated[
        int, typer.Option(min=1, metavar="TOKENS", help="Length of the shared text.")
    ] = 2048,
    answer_tokens: Annotated[int, typer.Option(min=1, metavar="TOKENS", help="Length of each answer.")] = 8,
    restart: Annotated[
        bool, typer.Option(help="Restart the server in every round, and repeat the request.")
    ] = True,
) -> "Scenario":
    """What the prefix cache saves: cold, warm, after a restart."""
    from mlxctl.bench.scenarios import Prefix

    return Prefix(prompt_tokens=prompt_tokens, answer_tokens=answer_tokens, restarts=restart)

"""`mlxctl bench prefix`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.bench.measurement import measurement

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Scenario

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
Number = typer.Option


@app.command(epilog="Example: mlxctl bench prefix --prompt-tokens 16000 --model mlx-community/Qwen3-8B-4bit")
@measurement
def prefix(
    prompt_tokens: Annotated[
        int, Number(min=1, metavar="TOKENS", help="Length of the text that is asked about.")
    ] = 2048,
    answer_tokens: Annotated[int, Number(min=1, metavar="TOKENS", help="Length of each answer.")] = 8,
    restart: Annotated[
        bool, typer.Option(help="Restart the own server in every round, and ask again.")
    ] = True,
) -> "Scenario":
    """What the prefix cache saves: cold, warm, after a restart."""
    from mlxctl.bench.scenarios import Prefix

    return Prefix(prompt_tokens=prompt_tokens, answer_tokens=answer_tokens, restarts=restart)

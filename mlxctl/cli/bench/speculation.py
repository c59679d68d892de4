"""`mlxctl bench speculation`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.bench.scenario_command import scenario_command
from mlxctl.cli.lazy import create_app

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Scenario

app = create_app()


@app.command(epilog="Example: mlxctl bench speculation --model MODEL -- --speculation auto")
@scenario_command
def speculation(
    streams: Annotated[
        int, typer.Option(min=1, max=256, metavar="NUMBER", help="Streams at once in the batch.")
    ] = 8,
    document_tokens: Annotated[
        int, typer.Option(min=16, metavar="TOKENS", help="Length of each document in a prompt.")
    ] = 400,
    answer_tokens: Annotated[int, typer.Option(min=2, metavar="TOKENS", help="Length of each answer.")] = 256,
) -> "Scenario":
    """Answers with and without speculative decoding, in turn."""
    from mlxctl.bench.scenarios import Speculation

    return Speculation(num_streams=streams, document_tokens=document_tokens, answer_tokens=answer_tokens)

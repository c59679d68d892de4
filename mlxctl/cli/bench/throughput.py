"""`mlxctl bench throughput`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.bench.scenario_command import scenario_command
from mlxctl.cli.lazy import create_app

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Scenario

app = create_app()


@app.command(epilog="Example: mlxctl bench throughput --streams 1 --streams 8 -- --prefix-cache 0")
@scenario_command
def throughput(
    streams: Annotated[
        list[int], typer.Option(min=1, max=1024, metavar="NUMBER", help="Streams at once; may be repeated.")
    ] = [1, 4, 16],  # noqa: B006
    answer_tokens: Annotated[int, typer.Option(min=2, metavar="TOKENS", help="Length of each answer.")] = 256,
    prompt_tokens: Annotated[
        int, typer.Option(min=1, metavar="TOKENS", help="Length of the long prompt.")
    ] = 2048,
) -> "Scenario":
    """Tokens per second: one stream, many streams, a long prompt."""
    from mlxctl.bench.scenarios import Throughput

    unique = tuple(dict.fromkeys(streams))
    return Throughput(streams=unique, answer_tokens=answer_tokens, prompt_tokens=prompt_tokens)

"""`mlxctl bench throughput`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.bench.measurement import measurement

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Scenario

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
Number = typer.Option


@app.command(epilog="Example: mlxctl bench throughput --streams 1 --streams 8 -- --prefix-cache 0")
@measurement
def throughput(
    streams: Annotated[
        list[int], Number(min=1, max=1024, metavar="NUMBER", help="Answers at once; may be repeated.")
    ] = [1, 4, 16],  # noqa: B006
    answer_tokens: Annotated[int, Number(min=2, metavar="TOKENS", help="Length of each answer.")] = 256,
    prompt_tokens: Annotated[int, Number(min=1, metavar="TOKENS", help="Length of the long prompt.")] = 2048,
) -> "Scenario":
    """Tokens per second: one stream, many streams, a long prompt."""
    from mlxctl.bench.scenarios import Throughput

    unique = tuple(dict.fromkeys(streams))
    return Throughput(streams=unique, answer_tokens=answer_tokens, prompt_tokens=prompt_tokens)

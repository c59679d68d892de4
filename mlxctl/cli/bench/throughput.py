"""`mlxctl bench throughput`."""

from typing import Annotated

import typer

from mlxctl.cli.bench import shared_options as shared
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
Number = typer.Option


@app.command(epilog="Example: mlxctl bench throughput --streams 1 --streams 8 -- --prefix-cache 0")
def throughput(
    serve_options: shared.ServeOptions = None,
    streams: Annotated[list[int], Number(min=1, max=1024, metavar="NUMBER", help="Answers at once; may be repeated.")] = [1, 4, 16],  # noqa: B006
    answer_tokens: Annotated[int, Number(min=2, metavar="TOKENS", help="Length of each answer.")] = 256,
    prompt_tokens: Annotated[int, Number(min=1, metavar="TOKENS", help="Length of the long prompt.")] = 2048,
    model: shared.Model = None,
    url: shared.Url = None,
    api_key: shared.ApiKey = None,
    against: shared.Against = None,
    against_model: shared.AgainstModel = None,
    against_key: shared.AgainstKey = None,
    rounds: shared.Rounds = 5,
    warmups: shared.Warmups = 1,
    seed: shared.Seed = 1,
    bandwidth: shared.Bandwidth = None,
    out: shared.Out = None,
    as_json: shared.AsJson = False,
) -> None:
    """Tokens per second: one stream, many streams, a long prompt."""
    options = locals()
    with plain_failures():
        from mlxctl.bench.scenarios import Throughput
        from mlxctl.cli.bench.running import run_scenario

        unique = tuple(dict.fromkeys(streams))
        scenario = Throughput(streams=unique, answer_tokens=answer_tokens, prompt_tokens=prompt_tokens)
        run_scenario(scenario, options)

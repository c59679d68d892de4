"""`mlxctl bench latency`."""

from typing import Annotated

import typer

from mlxctl.cli.bench import shared_options as shared
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
Number = typer.Option


@app.command(epilog="Example: mlxctl bench latency --url http://127.0.0.1:8080 --requests 50")
def latency(
    serve_options: shared.ServeOptions = None,
    requests: Annotated[int, Number(min=1, max=10_000, metavar="NUMBER", help="Requests a round, one after the other.")] = 20,
    prompt_tokens: Annotated[int, Number(min=1, metavar="TOKENS", help="Length of each prompt.")] = 128,
    answer_tokens: Annotated[int, Number(min=2, metavar="TOKENS", help="Length of each answer.")] = 64,
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
    """How long one person waits: first token, next token, whole answer."""
    options = locals()
    with plain_failures():
        from mlxctl.bench.scenarios import Latency
        from mlxctl.cli.bench.running import run_scenario

        scenario = Latency(num_requests=requests, prompt_tokens=prompt_tokens, answer_tokens=answer_tokens)
        run_scenario(scenario, options)

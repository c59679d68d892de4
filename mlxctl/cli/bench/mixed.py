"""`mlxctl bench mixed`."""

from typing import Annotated

import typer

from mlxctl.cli.bench import shared_options as shared
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
Number = typer.Option


@app.command(epilog="Example: mlxctl bench mixed --clients 16 --requests 100 --seed 7")
def mixed(
    serve_options: shared.ServeOptions = None,
    requests: Annotated[int, Number(min=1, max=10000, metavar="NUMBER", help="Requests a round.")] = 32,
    clients: Annotated[int, Number(min=1, max=1024, metavar="NUMBER", help="Clients that ask at the same time.")] = 8,
    prompt_tokens: Annotated[int, Number(min=1, metavar="TOKENS", help="Length of the longest prompts.")] = 2048,
    answer_tokens: Annotated[int, Number(min=1, metavar="TOKENS", help="Length of the longest answers.")] = 256,
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
    """Traffic of all lengths from several clients at once."""
    options = locals()
    with plain_failures():
        from mlxctl.bench.scenarios import Mixed
        from mlxctl.cli.bench.running import run_scenario

        scenario = Mixed(num_requests=requests, num_clients=clients, prompt_tokens=prompt_tokens, answer_tokens=answer_tokens)
        run_scenario(scenario, options)

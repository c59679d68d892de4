"""`mlxctl bench contention`."""

from typing import Annotated

import typer

from mlxctl.cli.bench import shared_options as shared
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
Number = typer.Option


@app.command(epilog="Example: mlxctl bench contention --prompt-tokens 30000 --against http://127.0.0.1:8081")
def contention(
    serve_options: shared.ServeOptions = None,
    requests: Annotated[int, Number(min=1, max=1000, metavar="NUMBER", help="Short requests in each situation.")] = 5,
    prompt_tokens: Annotated[int, Number(min=1, metavar="TOKENS", help="Length of the long prompt.")] = 8192,
    answer_tokens: Annotated[int, Number(min=1, metavar="TOKENS", help="Length of the short answers.")] = 6,
    watch: Annotated[float, typer.Option(min=0.05, max=600, metavar="SECONDS", help="How long the stream is watched alone.")] = 1.0,
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
    """A short request, and a decoding stream, while a long prompt is read."""
    options = locals()
    with plain_failures():
        from mlxctl.bench.scenarios import Contention
        from mlxctl.cli.bench.running import run_scenario

        scenario = Contention(num_requests=requests, prompt_tokens=prompt_tokens, answer_tokens=answer_tokens, watch_seconds=watch)
        run_scenario(scenario, options)

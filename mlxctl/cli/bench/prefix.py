"""`mlxctl bench prefix`."""

from typing import Annotated

import typer

from mlxctl.cli.bench import shared_options as shared
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
Number = typer.Option


@app.command(epilog="Example: mlxctl bench prefix --prompt-tokens 16000 --model mlx-community/Qwen3-8B-4bit")
def prefix(
    serve_options: shared.ServeOptions = None,
    prompt_tokens: Annotated[int, Number(min=1, metavar="TOKENS", help="Length of the text that is asked about.")] = 2048,
    answer_tokens: Annotated[int, Number(min=1, metavar="TOKENS", help="Length of each answer.")] = 8,
    restart: Annotated[bool, typer.Option(help="Restart the own server in every round, and ask again.")] = True,
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
    """What a known beginning saves: cold, warm, after a restart."""
    options = locals()
    with plain_failures():
        from mlxctl.bench.scenarios import Prefix
        from mlxctl.cli.bench.running import run_scenario

        scenario = Prefix(prompt_tokens=prompt_tokens, answer_tokens=answer_tokens, restarts=restart)
        run_scenario(scenario, options)

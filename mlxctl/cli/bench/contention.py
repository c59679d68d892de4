"""`mlxctl bench contention`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.bench.scenario_command import scenario_command
from mlxctl.cli.lazy import create_app

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Scenario

app = create_app()


@app.command(epilog="Example: mlxctl bench contention --prompt-tokens 30000 --against http://127.0.0.1:8081")
@scenario_command
def contention(
    requests: Annotated[
        int, typer.Option(min=1, max=1000, metavar="NUMBER", help="Short requests in each situation.")
    ] = 5,
    prompts: Annotated[
        int, typer.Option(min=1, max=256, metavar="NUMBER", help="Long prompts sent at once.")
    ] = 1,
    pause: Annotated[
        float, typer.Option(min=0, max=600, metavar="SECONDS", help="Time between two short requests.")
    ] = 0.0,
    prompt_tokens: Annotated[
        int, typer.Option(min=1, metavar="TOKENS", help="Length of each long prompt.")
    ] = 8192,
    answer_tokens: Annotated[
        int, typer.Option(min=1, metavar="TOKENS", help="Length of the short answers.")
    ] = 6,
    watch: Annotated[
        float,
        typer.Option(
            min=0.05, max=600, metavar="SECONDS", help="Time for which the stream is measured alone."
        ),
    ] = 1.0,
) -> "Scenario":
    """A short request and a decoding stream beside a long prefill."""
    from mlxctl.bench.scenarios import Contention

    return Contention(
        num_requests=requests,
        num_prompts=prompts,
        pause_seconds=pause,
        prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens,
        watch_seconds=watch,
    )

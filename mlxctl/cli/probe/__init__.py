"""`mlxctl probe`."""

from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.failures import plain_failures
from mlxctl.cli.models.shared_options import AsJson, ConfigFile, read_settings

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
Names = Annotated[
    list[str] | None, typer.Argument(metavar="MODEL", help="Models of the library, aliases, or directories.")
]
Toml = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the answers there, as capabilities.toml takes them."),
]
Timeout = Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Longest time for one answer.")]
Trust = Annotated[
    bool,
    typer.Option("--trust-remote-code", help="Run Python code inside the model directory, if there is any."),
]


@app.command(epilog="Example: mlxctl probe mlx-community/Qwen3-8B-4bit    or: mlxctl probe --all")
def probe(
    models: Names = None,
    everything: Annotated[bool, typer.Option("--all", help="Every model of the library.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Ask again what was answered before.")] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Print what is known, with all evidence; ask nothing.")
    ] = False,
    toml: Toml = None,
    timeout: Timeout = 600.0,
    trust_remote_code: Trust = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Test what models can do by generating, and store the results.

    Each answer is yes, no or unknown, with its evidence. What capabilities.toml says, beside the usual
    settings file, wins over it. Ctrl-C keeps what was found until then.
    """
    if everything == bool(models):
        raise typer.BadParameter("name models, or give --all")
    with plain_failures():
        settings = read_settings(config)
        from mlxctl.cli.probe.asking import Wishes, ask, look
        from mlxctl.cli.probe.report import check_free, report

        check_free(toml)
        wishes = Wishes(
            force=force, timeout_seconds=timeout, trust_remote_code=trust_remote_code, is_quiet=as_json
        )
        found = look(models, settings) if show else ask(models, settings, wishes)
        raise typer.Exit(report(found, as_json=as_json, toml=toml, with_evidence=show))

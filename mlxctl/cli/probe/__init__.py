"""`mlxctl probe`."""

from pathlib import Path
from typing import Annotated

import click

from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.options import AsJson, ConfigFile, read_settings
from mlxctl.cli.parameters import Argument, Option

Names = Annotated[
    list[str] | None,
    Argument(metavar="MODEL", help="Models of the library or a running server, aliases, or directories."),
]
Toml = Annotated[
    Path | None,
    Option(metavar="FILE", help="Write the results to this new file, in the format of capabilities.toml."),
]
Timeout = Annotated[float, Option(min=1, metavar="SECONDS", help="Longest time for one answer.")]
Trust = Annotated[
    bool,
    Option("--trust-remote-code", help="Run Python code of the model directory, if it has any."),
]


@command(epilog="Example: mlxctl probe mlx-community/Qwen3-8B-4bit    or: mlxctl probe --all")
def probe(
    models: Names = None,
    everything: Annotated[bool, Option("--all", help="Every model of the library.")] = False,
    force: Annotated[bool, Option("--force", help="Probe again even if results are stored.")] = False,
    show: Annotated[
        bool, Option("--show", help="Print stored results with all evidence; probe nothing.")
    ] = False,
    toml: Toml = None,
    timeout: Timeout = 600.0,
    trust_remote_code: Trust = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Test what models can do by generating, and store the results.

    Each result is yes, no or unknown, with its evidence. capabilities.toml, beside the settings file, takes
    precedence over results. A running server uses new results at once. Ctrl-C keeps the findings up to then.
    """
    if everything == bool(models):
        raise click.BadParameter("name models, or give --all")
    with report_errors():
        settings = read_settings(config)
        from mlxctl.cli.probe.report import check_free, report
        from mlxctl.cli.probe.results import ProbeOptions, probe_models, read_results

        check_free(toml)
        options = ProbeOptions(
            force=force, timeout_seconds=timeout, trust_remote_code=trust_remote_code, is_quiet=as_json
        )
        results = read_results(models, settings) if show else probe_models(models, settings, options)
        raise click.exceptions.Exit(report(results, as_json=as_json, toml=toml, with_evidence=show))

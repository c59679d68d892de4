"""`mlxctl models info`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.models import open_library
from mlxctl.cli.options import AsJson, ConfigFile, print_json
from mlxctl.cli.served_directories import find_directory
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.ir import AdapterVerdict
    from mlxctl.library import ModelDescription
    from mlxctl.library.capability_lookup import ProbedModel

app = create_app()


@app.command(epilog="Example: mlxctl models info mlx-community/Qwen3-8B-4bit")
def info(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A model of the library or a running server, an alias, or a directory."
        ),
    ],
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show what a model is, without loading it."""
    with report_errors():
        from mlxctl.library import describe_model, this_machine
        from mlxctl.library.capability_lookup import open_capability_lookup
        from mlxctl.library.draft_models import find_drafters
        from mlxctl.library.measured_speeds import MeasuredSpeeds

        library = open_library(config)
        found = find_directory(name, library)
        model = describe_model(found.path, name=found.name)
        knowledge = open_capability_lookup()
        known = knowledge.of(found.name, found.path, library)
        knowledge.close()
        verdict = _read_adapter(model, known)
        speeds = MeasuredSpeeds()
        speed = speeds.of(found.path, this_machine())
        speeds.close()
        drafters = find_drafters(model, map(library.describe, library.entries()))
    if as_json:
        import msgspec

        from mlxctl.library.views import ModelView

        view = msgspec.to_builtins(ModelView.of(model, is_probed=known.record is not None))
        adapter = msgspec.to_builtins(verdict)
        print_json(
            {
                **view,
                "path": str(model.path),
                "findings": dict(known.verdicts),
                "adapter": adapter,
                "measured_speed": msgspec.to_builtins(speed),
                "drafters": msgspec.to_builtins(drafters),
            }
        )
    else:
        from mlxctl.cli.models.facts import print_facts

        print_facts(model, known, verdict, speed, drafters, given_name=name)
    if model.problem is not None:
        echo(f"mlxctl: {model.problem}", err=True)
        raise typer.Exit(1)


def _read_adapter(model: "ModelDescription", known: "ProbedModel") -> "AdapterVerdict | None":
    """Return what the adapter detects in the chat template, without loading weights.

    None for a model that cannot be used or has no template.
    """
    from mlxctl.formats.adapters import create_adapter
    from mlxctl.ir.errors import BrokenModel
    from mlxctl.library import read_model

    if model.problem is not None or not model.has_template:
        return None
    try:
        adapter = create_adapter(read_model(model.path), name=model.name, capabilities=known.capabilities)
    except BrokenModel:
        return None
    return adapter.verdict

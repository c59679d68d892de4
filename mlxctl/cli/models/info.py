"""`mlxctl models info`."""

from typing import Annotated

import typer

from mlxctl.cli.failures import plain_failures
from mlxctl.cli.models.shared_options import AsJson, ConfigFile, open_library, print_json

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: mlxctl models info mlx-community/Qwen3-8B-4bit")
def info(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A model of the library, an alias, or a directory.")
    ],
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show what a model is, without loading it."""
    with plain_failures():
        from mlxctl.cli.models.adapting import adapter_verdict
        from mlxctl.models import describe_model
        from mlxctl.models.knowledge import open_knowledge

        library = open_library(config)
        found = library.resolve(name)
        model = describe_model(found.path, name=found.name)
        knowledge = open_knowledge()
        known = knowledge.of(found.name, found.path, library)
        knowledge.close()
        verdict = adapter_verdict(model, known)
    if as_json:
        import msgspec

        from mlxctl.models.views import ModelView

        view = msgspec.to_builtins(ModelView.of(model, is_probed=known.record is not None))
        adapter = msgspec.to_builtins(verdict)
        print_json({**view, "path": str(model.path), "findings": dict(known.verdicts), "adapter": adapter})
    else:
        from mlxctl.cli.models.facts import print_facts

        print_facts(model, known, verdict, asked=name)
    if model.problem is not None:
        typer.echo(f"mlxctl: {model.problem}", err=True)
        raise typer.Exit(1)

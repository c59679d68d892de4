"""`mlxctl models ls`."""

import typer

from mlxctl.cli.failures import plain_failures
from mlxctl.cli.models.shared_options import AsJson, ConfigFile, print_json, read_settings

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: mlxctl models ls --json")
def ls(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """List the models on this machine."""
    with plain_failures():
        settings = read_settings(config)
        from mlxctl.models import Library, fit_model, this_machine

        library = Library(settings.library)
        models = [library.describe(entry) for entry in library.entries()]
        machine = this_machine(memory_limit_bytes=settings.engine.memory_limit_bytes)
        rows = [(model, fit_model(model, machine)) for model in models]
    if as_json:
        from mlxctl.models.views import model_view

        print_json([{**model_view(model), "fits": fit.fits if fit else None} for model, fit in rows])
        return
    from mlxctl.cli.models.listing import print_listing

    print_listing(rows, library)

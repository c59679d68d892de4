"""`mlxctl models ls`."""

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AsJson, ConfigFile, print_json, read_settings

app = create_app()


@app.command(epilog="Example: mlxctl models ls --json")
def ls(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """List the models on this machine."""
    with report_errors():
        settings = read_settings(config)
        from mlxctl.models import Library, fit_model, this_machine
        from mlxctl.models.capability_lookup import open_capability_lookup

        library = Library(settings.library)
        models = [library.describe(entry) for entry in library.entries()]
        machine = this_machine(memory_limit_bytes=settings.engine.memory_limit_bytes)
        rows = [(model, fit_model(model, machine)) for model in models]
        knowledge = open_capability_lookup()
        probed = {
            model.name
            for model in models
            if model.problem is None and knowledge.of(model.name, model.path, library).record
        }
        knowledge.close()
    if as_json:
        import msgspec

        from mlxctl.models.views import ModelView

        views = (msgspec.to_builtins(ModelView.of(model, is_probed=model.name in probed)) for model in models)
        found = zip(views, rows, strict=True)
        print_json(
            [
                {**view, "path": str(model.path), "fits": fit.fits if fit else None}
                for view, (model, fit) in found
            ]
        )
        return
    from mlxctl.cli.models.tables import print_listing

    print_listing(rows, library, probed)

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
        from mlxctl.cli.models.tables import ListedModel, print_listing
        from mlxctl.library import Library, fit_model, this_machine
        from mlxctl.library.capability_lookup import open_capability_lookup

        library = Library(settings.library)
        machine = this_machine(memory_limit_bytes=settings.engine.memory_limit_bytes)
        rows = [
            ListedModel(entry, model, fit_model(model, machine))
            for entry in library.entries()
            for model in [library.describe(entry)]
        ]
        knowledge = open_capability_lookup()
        probed = {
            model.name
            for _, model, _ in rows
            if model.problem is None and knowledge.of(model.name, model.path, library).record
        }
        knowledge.close()
    if as_json:
        import msgspec

        from mlxctl.library.views import ModelView

        print_json(
            [
                {
                    **msgspec.to_builtins(ModelView.of(model, is_probed=model.name in probed)),
                    "path": str(model.path),
                    "origin": entry.origin,
                    "fits": fit.fits if fit else None,
                }
                for entry, model, fit in rows
            ]
        )
        return
    print_listing(rows, library, probed)

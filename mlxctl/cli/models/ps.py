"""`mlxctl models ps`."""

from dataclasses import asdict

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json, server_url

app = create_app()


@app.command(epilog="Example: mlxctl models ps --url http://127.0.0.1:8080")
def ps(as_json: AsJson = False, url: ServerUrl = None, api_key: ApiKey = None) -> None:
    """List the models of a running server and their state."""
    with report_errors():
        from mlxctl.cli.inspector.served_models import ModelServer, served_models_table

        with ModelServer(server_url(url), api_key=api_key) as server:
            rows = server.models()
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    from mlxctl.cli.console import console, print_names

    print_names(console(), served_models_table(rows))

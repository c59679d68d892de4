"""`mlxctl scheduler show`."""

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.live_settings import LiveSettings, print_settings
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, server_url

PATH = "/admin/scheduler"
app = create_app()


@app.command(epilog="Example: mlxctl scheduler show --url http://127.0.0.1:8080")
def show(as_json: AsJson = False, url: ServerUrl = None, api_key: ApiKey = None) -> None:
    """Show the scheduler's settings of a running server."""
    with report_errors():
        from mlxctl.cli.inspector.connection import ServerConnection

        with ServerConnection(server_url(url), api_key=api_key) as server:
            found = server.request("GET", PATH, LiveSettings)
    print_settings(found, as_json=as_json)

"""`mlxctl adapters ls`."""

from msgspec import to_builtins

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json, server_url

app = create_app()


@app.command(epilog="Example: mlxctl adapters ls --url http://127.0.0.1:8080")
def ls(as_json: AsJson = False, url: ServerUrl = None, api_key: ApiKey = None) -> None:
    """List the LoRA adapters of a running server."""
    with report_errors():
        from mlxctl.cli.inspector.served_adapters import AdapterServer, adapters_table

        with AdapterServer(server_url(url), api_key=api_key) as server:
            adapters = server.adapters()
    if as_json:
        print_json(to_builtins(adapters))
        return
    from mlxctl.cli.console import console

    empty = "no adapters; mount one with: mlxctl adapters mount NAME PATH"
    console().print(adapters_table(adapters) if adapters else empty)

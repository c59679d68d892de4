"""`mlxctl logs`: the log of the server in the background."""

from mlxctl.cli.lazy import create_app
from mlxctl.cli.service import logs

app = create_app()
app.command(epilog="Example: mlxctl logs --follow")(logs)

"""`mlxctl logs`: the log of the server in the background."""

from mlxctl.cli.lazy import COMMANDS, create_app
from mlxctl.cli.service.commands import logs

app = create_app()
app.command(help=COMMANDS["logs"].summary, epilog="Example: mlxctl logs --follow")(logs)

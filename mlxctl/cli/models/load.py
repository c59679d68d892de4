"""`mlxctl models load`."""

from mlxctl.cli.models.residency import change_command

app = change_command("load")

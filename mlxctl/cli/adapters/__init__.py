"""`mlxctl adapters`: LoRA adapters of a running server. One file per command."""

from mlxctl.cli.lazy import LazyCommand, lazy_group

COMMANDS = {
    "ls": LazyCommand("mlxctl.cli.adapters.ls", "List the LoRA adapters of a running server."),
    "mount": LazyCommand("mlxctl.cli.adapters.mount", "Mount a LoRA adapter on a running server."),
    "unmount": LazyCommand("mlxctl.cli.adapters.unmount", "Unmount a LoRA adapter of a running server."),
}
app = lazy_group("adapters", COMMANDS, example="mlxctl adapters ls")

"""`mlxctl models`: models on this machine, the hub, and a running server."""

from mlxctl.cli.commands import LazyCommand, lazy_group

COMMANDS = {
    "ls": LazyCommand("mlxctl.cli.models.library:ls", "List the models on this machine."),
    "info": LazyCommand("mlxctl.cli.models.library:info", "Show what a model is, without loading it."),
    "fit": LazyCommand(
        "mlxctl.cli.models.estimates:fit",
        "Estimate whether models fit this machine, and their maximum speed.",
    ),
    "tune": LazyCommand(
        "mlxctl.cli.models.estimates:tune", "Measure the drafters that fit a model, and name the fastest."
    ),
    "pull": LazyCommand("mlxctl.cli.models.hub:pull", "Download a model from the Hugging Face hub."),
    "import": LazyCommand(
        "mlxctl.cli.models.conversion:import_gguf", "Import a GGUF file, or a model of Ollama."
    ),
    "convert": LazyCommand(
        "mlxctl.cli.models.conversion:convert", "Convert a model to the MLX format, and quantize it."
    ),
    "rm": LazyCommand("mlxctl.cli.models.library:rm", "Delete a model from disk."),
    "alias": LazyCommand("mlxctl.cli.models.library:alias", "Add a name for a model."),
    "search": LazyCommand("mlxctl.cli.models.hub:search", "Search the Hugging Face hub for MLX models."),
    "recommend": LazyCommand("mlxctl.cli.models.hub:recommend", "Suggest models that fit this machine."),
    "ps": LazyCommand("mlxctl.cli.models.served:ps", "List the models of a running server and their state."),
    "load": LazyCommand("mlxctl.cli.models.served:load", "Load a model of a running server into memory."),
    "unload": LazyCommand(
        "mlxctl.cli.models.served:unload", "Unload a model of a running server; requests load it again."
    ),
    "pin": LazyCommand(
        "mlxctl.cli.models.served:pin", "Keep a model of a running server in memory once it is loaded."
    ),
    "unpin": LazyCommand("mlxctl.cli.models.served:unpin", "Allow a pinned model to be unloaded."),
}
app = lazy_group("models", COMMANDS, example="mlxctl models ls")

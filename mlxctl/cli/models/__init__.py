"""`mlxctl models`: the models on this machine. One file per command."""

from pathlib import Path
from typing import TYPE_CHECKING

from mlxctl.cli.lazy import LazyCommand, lazy_group
from mlxctl.cli.options import read_settings
from mlxctl.cli.served_directories import find_directory
from mlxctl.ir.errors import ModelNotFoundOnDisk

if TYPE_CHECKING:
    from mlxctl.library import Library

COMMANDS = {
    "ls": LazyCommand("mlxctl.cli.models.ls", "List the models on this machine."),
    "info": LazyCommand("mlxctl.cli.models.info", "Show what a model is, without loading it."),
    "fit": LazyCommand(
        "mlxctl.cli.models.fit", "Estimate whether models fit this machine, and their maximum speed."
    ),
    "tune": LazyCommand(
        "mlxctl.cli.models.tune", "Measure the drafters that fit a model, and name the fastest."
    ),
    "pull": LazyCommand("mlxctl.cli.models.pull", "Download a model from the Hugging Face hub."),
    "import": LazyCommand("mlxctl.cli.models.import_gguf", "Import a GGUF file, or a model of Ollama."),
    "convert": LazyCommand(
        "mlxctl.cli.models.convert", "Convert a model to the MLX format, and quantize it."
    ),
    "rm": LazyCommand("mlxctl.cli.models.rm", "Delete a model from disk."),
    "alias": LazyCommand("mlxctl.cli.models.alias", "Add a name for a model."),
    "search": LazyCommand("mlxctl.cli.models.search", "Search the Hugging Face hub for MLX models."),
    "recommend": LazyCommand("mlxctl.cli.models.recommend", "Suggest models that fit this machine."),
    "ps": LazyCommand("mlxctl.cli.models.ps", "List the models of a running server and their state."),
    "load": LazyCommand("mlxctl.cli.models.load", "Load a model of a running server into memory."),
    "unload": LazyCommand(
        "mlxctl.cli.models.unload", "Unload a model of a running server; requests load it again."
    ),
    "pin": LazyCommand(
        "mlxctl.cli.models.pin", "Keep a model of a running server in memory once it is loaded."
    ),
    "unpin": LazyCommand("mlxctl.cli.models.unpin", "Allow a pinned model to be unloaded."),
}
app = lazy_group("models", COMMANDS, example="mlxctl models ls")


def open_library(config: Path | None) -> "Library":
    """Return the library that the settings describe. Raises SettingsError."""
    from mlxctl.library import Library

    return Library(read_settings(config).library)


def is_model_name(word: str) -> bool:
    """Return whether `word` is the name or path of a model.

    Raises SettingsError.
    """
    if not word or len(word.split()) != 1:
        return False
    try:
        found = find_directory(word, open_library(None))
    except ModelNotFoundOnDisk:
        return False
    return (found.path / "config.json").is_file()

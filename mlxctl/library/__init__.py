"""Models on disk and what their files say.

Runs in the front, on worker threads where it reads files, and in commands. Knows no mlx and loads no weights.
"""

from typing import TYPE_CHECKING

from mlxctl import on_demand

if TYPE_CHECKING:
    from mlxctl.library.description import ModelDescription, describe_model
    from mlxctl.library.directory_reader import read_model
    from mlxctl.library.fit import Fit, fit_model, fit_on_macs
    from mlxctl.library.library import DEMO_MODEL, DEMO_SHORT_NAME, Library, LibraryEntry, NamedDirectory
    from mlxctl.library.machine import Machine, this_machine

__all__ = [
    "DEMO_MODEL",
    "DEMO_SHORT_NAME",
    "Fit",
    "Library",
    "LibraryEntry",
    "Machine",
    "ModelDescription",
    "NamedDirectory",
    "describe_model",
    "fit_model",
    "fit_on_macs",
    "read_model",
    "this_machine",
]

__getattr__ = on_demand(__name__, __all__, ("library", "description", "fit", "machine", "directory_reader"))

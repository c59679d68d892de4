"""Requests to models: admission, preparation, generation, embedding, transcription.

Runs on the front's event loop, except in `preparation`, whose workers are processes. Knows no HTTP and no
wire format.
"""

from typing import TYPE_CHECKING

from mlxctl import on_demand

if TYPE_CHECKING:
    from mlxctl.inference.answers import Answers
    from mlxctl.inference.generation import Generation
    from mlxctl.inference.models.served_model import ServedModel, UnusableModel
    from mlxctl.inference.service import InferenceService

__all__ = ["Answers", "Generation", "InferenceService", "ServedModel", "UnusableModel"]

# PERF: a chat with a server needs `remote` alone.
__getattr__ = on_demand(__name__, __all__, ("models.served_model", "answers", "generation", "service"))

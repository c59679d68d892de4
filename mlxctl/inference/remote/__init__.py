"""Inference by any server with OpenAI's API, behind a URL.

Event-loop thread only. The HTTP client is imported with the first server.
"""

from typing import TYPE_CHECKING

from mlxctl import on_demand

if TYPE_CHECKING:
    from mlxctl.inference.remote.client import RemoteInference
    from mlxctl.inference.remote.generation import RemoteGeneration
    from mlxctl.inference.remote.model_list import RemoteModel

__all__ = ["RemoteGeneration", "RemoteInference", "RemoteModel"]

__getattr__ = on_demand(__name__, __all__, ("model_list", "generation", "client"))

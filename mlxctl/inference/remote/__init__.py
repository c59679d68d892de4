"""Inference by any server with OpenAI's API, behind a URL.

Event-loop thread only.
"""

from mlxctl.inference.remote.client import RemoteInference
from mlxctl.inference.remote.generation import RemoteGeneration
from mlxctl.inference.remote.model_list import RemoteModel

__all__ = ["RemoteGeneration", "RemoteInference", "RemoteModel"]

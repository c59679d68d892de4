"""Ask a model behind a URL: the words of `InferenceService`, over HTTP to any server with OpenAI's chat
completions.
"""

from mlxctl.inference.remote.client import RemoteInference
from mlxctl.inference.remote.generation import RemoteGeneration
from mlxctl.inference.remote.model_list import RemoteModel

__all__ = ["RemoteGeneration", "RemoteInference", "RemoteModel"]

"""The one engine. The front enters through EngineClient; everything of MLX stays on the engine's own thread, in `run_engine`."""

from mlxctl.engine.client import EngineClient, EngineStatus, ModelSource
from mlxctl.engine.launcher import EngineProcess, InlineEngine
from mlxctl.engine.messages import Hello, ModelLoaded, RowUpdate, Score, Stats
from mlxctl.engine.token_stream import TokenStream

__all__ = [
    "EngineClient",
    "EngineProcess",
    "EngineStatus",
    "Hello",
    "InlineEngine",
    "ModelLoaded",
    "ModelSource",
    "RowUpdate",
    "Score",
    "Stats",
    "TokenStream",
]

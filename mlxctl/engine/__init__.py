"""The one engine. The front enters through EngineClient; everything of MLX stays on the engine's own thread, in `run_engine`."""

from mlxctl.engine.client import EngineClient
from mlxctl.engine.launcher import EngineProcess, InlineEngine
from mlxctl.engine.lease import Lease
from mlxctl.engine.messages import (
    CacheAction,
    CacheAnswer,
    CachedChunk,
    Hello,
    LookedUp,
    ModelLoaded,
    ModelUnloaded,
    RowUpdate,
    Score,
    SoundWindow,
    Stats,
    WrittenWindow,
)
from mlxctl.engine.model_desk import ModelSource
from mlxctl.engine.residency import Resident, Room
from mlxctl.engine.residents import ModelState, Residents
from mlxctl.engine.supervision import EngineStatus
from mlxctl.engine.token_stream import TokenStream

__all__ = [
    "CacheAction",
    "CacheAnswer",
    "CachedChunk",
    "EngineClient",
    "EngineProcess",
    "EngineStatus",
    "Hello",
    "InlineEngine",
    "Lease",
    "LookedUp",
    "ModelLoaded",
    "ModelSource",
    "ModelState",
    "ModelUnloaded",
    "Resident",
    "Residents",
    "Room",
    "RowUpdate",
    "Score",
    "SoundWindow",
    "Stats",
    "TokenStream",
    "WrittenWindow",
]

"""The engine: EngineClient for the front, and the MLX thread.

The thread runs `run_engine`, in a separate process or in a thread of the caller.
"""

from typing import TYPE_CHECKING

from mlxctl import on_demand

if TYPE_CHECKING:
    from mlxctl.engine.client.engine_client import EngineClient
    from mlxctl.engine.client.launcher import EngineProcess, InlineEngine
    from mlxctl.engine.client.rank_launcher import EngineRanks
    from mlxctl.engine.client.supervisor import EngineStatus
    from mlxctl.engine.client.token_stream import TokenStream
    from mlxctl.engine.wire.commands import CacheAction, Submit
    from mlxctl.engine.wire.jobs import AudioWindow, Speak, Spoken, TranscribedWindow
    from mlxctl.engine.wire.reports import (
        CacheAnswer,
        CachedChunk,
        Hello,
        LookedUp,
        ModelLoaded,
        ModelUnloaded,
        PrefillFigures,
        RowUpdate,
        Score,
        Stats,
    )

__all__ = [
    "AudioWindow",
    "CacheAction",
    "CacheAnswer",
    "CachedChunk",
    "EngineClient",
    "EngineProcess",
    "EngineRanks",
    "EngineStatus",
    "Hello",
    "InlineEngine",
    "LookedUp",
    "ModelLoaded",
    "ModelUnloaded",
    "PrefillFigures",
    "RowUpdate",
    "Score",
    "Speak",
    "Spoken",
    "Stats",
    "Submit",
    "TokenStream",
    "TranscribedWindow",
]

# PERF: a chat with a server needs the messages alone.
__getattr__ = on_demand(
    __name__,
    __all__,
    (
        "wire.reports",
        "wire.jobs",
        "wire.commands",
        "client.token_stream",
        "client.supervisor",
        "client.launcher",
        "client.rank_launcher",
        "client.engine_client",
    ),
)

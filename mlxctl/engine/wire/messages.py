"""The unions of all messages between front and engine."""

from mlxctl.engine.wire.commands import (
    AskCache,
    Cancel,
    ConfigureCache,
    ConfigureScheduler,
    LoadModel,
    LookUp,
    MountLora,
    Pause,
    ReadGrammarVocabulary,
    ReportStats,
    Stop,
    Submit,
    UnloadModel,
    UnmountLora,
    Unpause,
)
from mlxctl.engine.wire.jobs import AnyJobCommand, AnyJobReport
from mlxctl.engine.wire.reports import (
    CacheAnswer,
    Hello,
    LookedUp,
    LoraChanged,
    ModelFailed,
    ModelLoaded,
    ModelLoadStep,
    ModelUnloaded,
    Stats,
    Step,
)

AnyCommand = (
    LoadModel
    | UnloadModel
    | ReadGrammarVocabulary
    | Submit
    | AnyJobCommand
    | Cancel
    | Pause
    | Unpause
    | ReportStats
    | LookUp
    | AskCache
    | MountLora
    | UnmountLora
    | ConfigureScheduler
    | ConfigureCache
    | Stop
)
AnyReport = (
    Hello
    | ModelLoadStep
    | ModelLoaded
    | ModelFailed
    | ModelUnloaded
    | Step
    | AnyJobReport
    | Stats
    | LookedUp
    | CacheAnswer
    | LoraChanged
)

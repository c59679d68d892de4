"""All exceptions that mlxctl raises on purpose.

Every package may import this one; it imports nothing of mlxctl. One module for each group of errors.

MlxctlError
├── SettingsError                a flag, variable or file has an invalid value
│   └── UsageError               a command is called wrongly
├── StoreError                   a database of mlxctl cannot be used
│   └── StoreUnavailable         a store of the server; other requests still work
├── ServiceFailed                the background service cannot be installed or started
├── ClientNotReady               a coding agent cannot be launched
├── NoPlayer                     no program of this machine plays audio
├── NoVoice                      the text-to-speech voice produces no audio
├── ModelError                   a model on disk cannot be used
│   ├── ModelNotFoundOnDisk
│   │   └── AmbiguousModelName   a short form of several models' names
│   ├── BrokenModel
│   ├── RanksUnavailable         the ranks of a group cannot serve it together
│   ├── DownloadFailed
│   ├── ConversionFailed         a model cannot be imported or converted
│   └── NotEnoughMemory
├── RequestError                 the caller has to change the request
│   ├── InvalidRequest
│   │   └── UnknownVoice         a voice that the speech model does not have
│   ├── ContextTooLong
│   │   └── PracticalContextExceeded  memory does not suffice, as probing measured
│   ├── ContextOverBudget        prompt and output can never fit into the memory limit
│   ├── UnknownModel
│   ├── UnknownResource          a route or an object that does not exist
│   │   └── UnknownThread        no stored conversation ends with this answer
│   ├── Conflict                 the current state does not allow the request
│   ├── MethodNotAllowed
│   ├── BodyTooLarge
│   ├── EncodedBody              the body is compressed
│   ├── BodyTooSlow
│   ├── HeadersTooLarge
│   ├── LoopDetected             it came back by way of other servers
│   ├── AuthenticationFailed
│   │   └── InvalidToken         a token of the identity provider is not accepted
│   ├── GuardrailMatched         the prompt has text that a guardrail refuses
│   └── PermissionDenied         authenticated, but not allowed to do this
│       ├── InsufficientScope
│       ├── FeatureDisabled      the server's settings do not allow it
│       └── PolicyDenied         a policy server denied the request
├── CapacityError                the same request works later
│   ├── QueueFull
│   ├── RateLimited              the caller's own limit is reached
│   ├── PolicyUnavailable        a policy or identity server does not answer
│   ├── MemoryShortage           memory is held by others and was not freed in time
│   ├── ModelLoading             the server is starting
│   ├── EngineRecovering
│   ├── ShuttingDown
│   ├── ModelInUse
│   └── ServerUnreachable        no server answers at the URL
│       └── NoModelList          another kind of server does
└── EngineError                  a request was accepted and could not be finished
    ├── EngineDied
    ├── SequenceFailed
    ├── RequestCancelled         cancelled by an operator or its own caller
    │   └── KeyRevoked           its API key is no longer valid
    ├── ClientTooSlow            the client does not read its stream
    ├── ModelUnavailable
    │   └── NoRoomForModel       the model does not fit in memory
    ├── RemoteFailed             another server, which has the model, failed
    ├── ConnectionLost           another server's answer broke off
    └── DeadlineExceeded

Errors carry facts as attributes; the protocols render them. Invariants of the code itself are asserts.
"""

from mlxctl.ir.errors.base import (
    ClientNotReady,
    MlxctlError,
    NoPlayer,
    NoVoice,
    ServiceFailed,
    SettingsError,
    StoreError,
    StoreUnavailable,
    UsageError,
    describe_bytes,
    shortened,
)
from mlxctl.ir.errors.capacity import (
    CapacityError,
    EngineRecovering,
    MemoryShortage,
    ModelInUse,
    ModelLoading,
    NoModelList,
    PolicyUnavailable,
    QueueFull,
    RateLimited,
    ServerUnreachable,
    ShuttingDown,
)
from mlxctl.ir.errors.engine import (
    ClientTooSlow,
    ConnectionLost,
    DeadlineExceeded,
    EngineDied,
    EngineError,
    KeyRevoked,
    ModelUnavailable,
    NoRoomForModel,
    RemoteFailed,
    RequestCancelled,
    SequenceFailed,
)
from mlxctl.ir.errors.model import (
    AmbiguousModelName,
    BrokenModel,
    ConversionFailed,
    DownloadFailed,
    ModelError,
    ModelNotFoundOnDisk,
    NotEnoughMemory,
    RanksUnavailable,
)
from mlxctl.ir.errors.request import (
    AuthenticationFailed,
    BodyTooLarge,
    BodyTooSlow,
    Conflict,
    ContextOverBudget,
    ContextTooLong,
    EncodedBody,
    FeatureDisabled,
    GuardrailMatched,
    HeadersTooLarge,
    InsufficientScope,
    InvalidRequest,
    InvalidToken,
    LoopDetected,
    MethodNotAllowed,
    PermissionDenied,
    PolicyDenied,
    PracticalContextExceeded,
    RequestError,
    UnknownModel,
    UnknownResource,
    UnknownThread,
    UnknownVoice,
)

__all__ = [
    "AmbiguousModelName",
    "AuthenticationFailed",
    "BodyTooLarge",
    "BodyTooSlow",
    "BrokenModel",
    "CapacityError",
    "ClientNotReady",
    "ClientTooSlow",
    "Conflict",
    "ConnectionLost",
    "ContextOverBudget",
    "ContextTooLong",
    "ConversionFailed",
    "DeadlineExceeded",
    "DownloadFailed",
    "EncodedBody",
    "EngineDied",
    "EngineError",
    "EngineRecovering",
    "FeatureDisabled",
    "GuardrailMatched",
    "HeadersTooLarge",
    "InsufficientScope",
    "InvalidRequest",
    "InvalidToken",
    "KeyRevoked",
    "LoopDetected",
    "MemoryShortage",
    "MethodNotAllowed",
    "MlxctlError",
    "ModelError",
    "ModelInUse",
    "ModelLoading",
    "ModelNotFoundOnDisk",
    "ModelUnavailable",
    "NoModelList",
    "NoPlayer",
    "NoRoomForModel",
    "NoVoice",
    "NotEnoughMemory",
    "PermissionDenied",
    "PolicyDenied",
    "PolicyUnavailable",
    "PracticalContextExceeded",
    "QueueFull",
    "RanksUnavailable",
    "RateLimited",
    "RemoteFailed",
    "RequestCancelled",
    "RequestError",
    "SequenceFailed",
    "ServerUnreachable",
    "ServiceFailed",
    "SettingsError",
    "ShuttingDown",
    "StoreError",
    "StoreUnavailable",
    "UnknownModel",
    "UnknownResource",
    "UnknownThread",
    "UnknownVoice",
    "UsageError",
    "describe_bytes",
    "shortened",
]

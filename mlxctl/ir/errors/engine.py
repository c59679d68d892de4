"""Errors of accepted requests that could not be finished."""

from mlxctl.ir.errors.base import MlxctlError


class EngineError(MlxctlError):
    """An accepted request failed through no fault of the caller."""


class EngineDied(EngineError):
    """The engine process ended while the request was open."""


class SequenceFailed(EngineError):
    """The engine aborted this request and continues with the others."""


class RequestCancelled(EngineError):
    """The request was cancelled by name, not by its client leaving."""


class KeyRevoked(RequestCancelled):
    """The API key of an open request was revoked or has expired."""

    def __init__(self) -> None:
        super().__init__("the API key of this request is no longer valid")


class ClientTooSlow(EngineError):
    """The client left the stream of its answer unread for too long."""

    def __init__(self, *, num_tokens: int, seconds: float) -> None:
        super().__init__(
            f"the client left {num_tokens} tokens of the stream unread for {seconds:g} seconds, so the "
            "answer was ended; read faster, or ask for the answer without streaming"
        )


class ModelUnavailable(EngineError):
    """A served model cannot be loaded; other models still work.

    The reason names no path.
    """

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"model {model!r} is not available: {reason}")
        self.model = model
        self.reason = reason


class NoRoomForModel(ModelUnavailable):
    """A model does not fit in memory beside those that must stay."""


class RemoteFailed(EngineError):
    """The server `remote`, which has the model, gave no usable answer."""

    def __init__(self, remote: str, reason: str) -> None:
        super().__init__(f"remote {remote!r}: {reason}")
        self.remote = remote


class ConnectionLost(EngineError):
    """Another server's answer broke off or cannot be parsed."""


class DeadlineExceeded(EngineError):
    """The request exceeded the server's time limit."""

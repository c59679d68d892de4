"""The exception tree of the house.

MlxctlError
├── SettingsError                what a person configured cannot be honored
├── StoreError                   a file of ours that remembers things cannot be used
│   └── StoreUnavailable         a store of the server; other requests are not touched
├── NoVoice                      nobody can say a text here
├── ModelError                   a model on disk cannot be used
│   ├── ModelNotFoundOnDisk
│   ├── BrokenModel
│   ├── DownloadFailed
│   └── NotEnoughMemory
├── RequestError                 the caller has to change the request
│   ├── InvalidRequest
│   ├── ContextTooLong
│   ├── UnknownModel
│   ├── UnknownResource          a route or an object that does not exist
│   ├── Conflict                 what is there, or has happened meanwhile, does not allow it
│   ├── MethodNotAllowed
│   ├── BodyTooLarge
│   ├── AuthenticationFailed
│   └── PermissionDenied         a caller who may ask, but not for this
├── CapacityError                the same request works later
│   ├── QueueFull
│   ├── ModelLoading             the server starts; its engine or first model is not there yet
│   ├── EngineRecovering
│   ├── ShuttingDown
│   ├── ModelInUse
│   └── ServerUnreachable        nobody answers at a URL
└── EngineError                  a request was accepted and could not be finished
    ├── EngineDied
    ├── SequenceFailed
    ├── ModelUnavailable
    ├── ConnectionLost           the other server went away in mid-answer
    └── DeadlineExceeded

Errors carry facts as attributes; the protocols render them. Asserts are for our own invariants, these are for
the world outside.
"""

from pathlib import Path


def describe_bytes(num_bytes: int) -> str:
    """Return a size as a person says it."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if num_bytes >= unit / 10:
            return f"{num_bytes / unit:.2f} {name}"
    return f"{num_bytes / 1e3:.2f} kB"


class MlxctlError(Exception):
    """Base of everything that mlxctl raises on purpose; `str(error)` is one line fit for a person."""


class SettingsError(MlxctlError):
    """A flag, environment variable or settings file holds something that cannot be honored."""


class StoreError(MlxctlError):
    """A database of ours cannot be opened, read or written."""


class StoreUnavailable(StoreError):
    """A store cannot be used now: its file is locked, not permitted, damaged, or the disk is full; `store` is
    its name.
    """

    def __init__(self, store: str, message: str) -> None:
        super().__init__(message)
        self.store = store


class ServiceFailed(MlxctlError):
    """The background service cannot be installed, started or stopped."""


class ClientNotReady(MlxctlError):
    """A coding agent cannot be launched: it is not installed, or no model suffices for it."""


class NoVoice(MlxctlError):
    """A voice that is installed says nothing."""


class ModelError(MlxctlError):
    """A model on disk cannot be used; `path` says which."""

    def __init__(self, path: Path | str, message: str) -> None:
        super().__init__(message)
        self.path = str(path)

    def without_path(self, name: str) -> str:
        """Return what is wrong with the model `name`, without where it lies: who may ask for it need not
        know.
        """
        text = str(self).replace(repr(self.path), repr(name)).replace(self.path, name)
        return text.removeprefix(f"model {name!r}").removeprefix(":").lstrip()


class ModelNotFoundOnDisk(ModelError):
    """There is no model directory where one was named."""


class BrokenModel(ModelError):
    """The directory is there, but its files are missing, malformed, of an unknown kind, or not to be trusted."""


class DownloadFailed(ModelError):
    """The hub does not give the model, cannot be reached, or there is no room for it here; `path` is the
    repository.
    """


class NotEnoughMemory(ModelError):
    """The weights do not fit into the memory limit."""

    def __init__(self, path: Path | str, *, needed_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            path,
            f"model {str(path)!r} needs {describe_bytes(needed_bytes)} for its weights alone, but the memory limit is "
            f"{describe_bytes(limit_bytes)}: raise --memory-limit, or take a smaller or more quantized model",
        )
        self.needed_bytes = needed_bytes
        self.limit_bytes = limit_bytes


class RequestError(MlxctlError):
    """The caller sent something that can never work as it is."""


class InvalidRequest(RequestError):
    """A field is missing, of the wrong type or out of range; `param` is its path in the caller's own words."""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class ContextTooLong(RequestError):
    """The prompt alone fills the model's context window: too long, never to be confused with busy."""

    def __init__(self, *, num_prompt_tokens: int, context_length: int) -> None:
        super().__init__(f"prompt is too long: {num_prompt_tokens} tokens > {context_length} maximum")
        self.num_prompt_tokens = num_prompt_tokens
        self.context_length = context_length


class UnknownModel(RequestError):
    """The request names a model that this server does not offer."""

    def __init__(self, model: str, available: tuple[str, ...] = ()) -> None:
        offer = f"; available: {', '.join(available)}" if available else ""
        super().__init__(f"model {model!r} is not served here{offer}")
        self.model = model
        self.available = available


class UnknownResource(RequestError):
    """No such route, or no such object behind it."""


class Conflict(RequestError):
    """What is there, or has happened meanwhile, does not allow this; `param` is the field that is to blame,
    if one is.
    """

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class MethodNotAllowed(RequestError):
    """The route exists, but not for this HTTP method."""

    def __init__(self, method: str, allowed: tuple[str, ...]) -> None:
        super().__init__(f"method {method} is not allowed here; allowed: {', '.join(allowed)}")
        self.method = method
        self.allowed = allowed


class BodyTooLarge(RequestError):
    """The request body is larger than the server accepts."""

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(f"request body is larger than the limit of {limit_bytes} bytes")
        self.limit_bytes = limit_bytes


class BodyTooSlow(RequestError):
    """The request body did not arrive in time."""

    def __init__(self, *, limit_seconds: float) -> None:
        super().__init__(f"the request body did not arrive within {limit_seconds:g} seconds; send it at once")
        self.limit_seconds = limit_seconds


class HeadersTooLarge(RequestError):
    """The request line and the headers together are larger than the server accepts."""

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(
            f"request line and headers are larger than the limit of {limit_bytes} bytes (server.max_header_bytes)"
        )
        self.limit_bytes = limit_bytes


class AuthenticationFailed(RequestError):
    """The API key is missing or wrong."""


class PermissionDenied(RequestError):
    """The caller is let in, but may not do this."""


class CapacityError(MlxctlError):
    """The server cannot take the request now; the same request works after `retry_after_seconds`."""

    def __init__(self, message: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class QueueFull(CapacityError):
    """Too many requests wait already."""


class ModelLoading(CapacityError):
    """The server is starting: its engine or its first model is still being loaded."""


class EngineRecovering(CapacityError):
    """The engine died and is starting again."""


class ShuttingDown(CapacityError):
    """The server drains and takes nothing new."""


class ModelInUse(CapacityError):
    """The model cannot be let go now, because it is answering."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"model {model!r} is in use; try again when its requests have ended", retry_after_seconds=5.0
        )
        self.model = model


class ServerUnreachable(CapacityError):
    """Nobody answers at the URL that was named, or what answers is no server for language models."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"no server answers at {url}: {reason}")
        self.url = url


class EngineError(MlxctlError):
    """An accepted request could not be finished, through no fault of the caller."""


class EngineDied(EngineError):
    """The engine process ended while the request was open."""


class SequenceFailed(EngineError):
    """The engine gave this request up and goes on with the others."""


class ModelUnavailable(EngineError):
    """A model that this server offers cannot be brought up; the others are not touched.

    The reason names no path.
    """

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"model {model!r} is not available: {reason}")
        self.model = model
        self.reason = reason


class ConnectionLost(EngineError):
    """Another server ended the connection, or sent what cannot be read, before the answer was over."""


class DeadlineExceeded(EngineError):
    """The request took longer than the server's time limit."""

"""All exceptions that mlxctl raises on purpose.

Every package may import this one; it imports nothing of mlxctl.

MlxctlError
├── SettingsError                a flag, variable or file has an invalid value
├── StoreError                   a database of mlxctl cannot be used
│   └── StoreUnavailable         a store of the server; other requests still work
├── NoVoice                      the text-to-speech voice produces no audio
├── ModelError                   a model on disk cannot be used
│   ├── ModelNotFoundOnDisk
│   ├── BrokenModel
│   ├── DownloadFailed
│   └── NotEnoughMemory
├── RequestError                 the caller has to change the request
│   ├── InvalidRequest
│   ├── ContextTooLong
│   ├── ContextOverBudget        prompt and output can never fit into the memory limit
│   ├── UnknownModel
│   ├── UnknownResource          a route or an object that does not exist
│   ├── Conflict                 the current state does not allow the request
│   ├── MethodNotAllowed
│   ├── BodyTooLarge
│   ├── AuthenticationFailed
│   │   └── InvalidToken         a token of the identity provider is not accepted
│   ├── GuardrailMatched         the prompt has text that a guardrail refuses
│   └── PermissionDenied         authenticated, but not allowed to do this
│       ├── InsufficientScope
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
└── EngineError                  a request was accepted and could not be finished
    ├── EngineDied
    ├── SequenceFailed
    ├── RequestCancelled         cancelled by an operator or its own caller
    ├── ClientTooSlow            the client does not read its stream
    ├── ModelUnavailable
    ├── ConnectionLost           another server's answer broke off
    └── DeadlineExceeded

Errors carry facts as attributes; the protocols render them. Invariants of the code itself are asserts.
"""

import math
from pathlib import Path


def describe_bytes(num_bytes: int) -> str:
    """Return a size with a unit."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if num_bytes >= unit / 10:
            return f"{num_bytes / unit:.2f} {name}"
    return f"{num_bytes / 1e3:.2f} kB"


class MlxctlError(Exception):
    """Base of all errors that mlxctl raises on purpose.

    `str(error)` is one line for users.
    """


class SettingsError(MlxctlError):
    """A flag, environment variable or settings file has an invalid value."""


class StoreError(MlxctlError):
    """A database of mlxctl cannot be opened, read or written."""


class StoreUnavailable(StoreError):
    """A store cannot be used now; `store` is its name.

    Its file is locked, not permitted, damaged, or the disk is full.
    """

    def __init__(self, store: str, message: str) -> None:
        super().__init__(message)
        self.store = store


class ServiceFailed(MlxctlError):
    """The background service cannot be installed, started or stopped."""


class ClientNotReady(MlxctlError):
    """A coding agent cannot be launched.

    It is not installed, or no model suffices for it.
    """


class NoVoice(MlxctlError):
    """The installed text-to-speech voice produces no audio."""


class ModelError(MlxctlError):
    """A model on disk cannot be used; `path` is its directory."""

    def __init__(self, path: Path | str, message: str) -> None:
        super().__init__(message)
        self.path = str(path)

    def without_path(self, name: str) -> str:
        """Return the message with the model's name instead of its path.

        Clients need not know where it is.
        """
        text = str(self).replace(repr(self.path), repr(name)).replace(self.path, name)
        return text.removeprefix(f"model {name!r}").removeprefix(":").lstrip()


class ModelNotFoundOnDisk(ModelError):
    """There is no model directory where one was named."""


class BrokenModel(ModelError):
    """A model's files are missing, malformed, unknown or not trusted."""


class DownloadFailed(ModelError):
    """A download failed; `path` is the repository.

    The hub does not have the model, cannot be reached, or there is no room for it.
    """


class NotEnoughMemory(ModelError):
    """The weights do not fit into the memory limit."""

    def __init__(self, path: Path | str, *, needed_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            path,
            f"model {str(path)!r} needs {describe_bytes(needed_bytes)} for its weights alone, "
            f"but the memory limit is {describe_bytes(limit_bytes)}: "
            "raise --memory-limit, or take a smaller or more quantized model",
        )
        self.needed_bytes = needed_bytes
        self.limit_bytes = limit_bytes


class RequestError(MlxctlError):
    """The request can never work unchanged."""


class InvalidRequest(RequestError):
    """A field is missing, of the wrong type or out of range.

    `param` is its path in the caller's protocol.
    """

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class ContextTooLong(RequestError):
    """The prompt alone exceeds the model's context length."""

    def __init__(self, *, num_prompt_tokens: int, context_length: int) -> None:
        super().__init__(f"prompt is too long: {num_prompt_tokens} tokens > {context_length} maximum")
        self.num_prompt_tokens = num_prompt_tokens
        self.context_length = context_length


class ContextOverBudget(RequestError):
    """The request's cache can never fit into the memory limit."""


# Names in an error message, and the length up to which names are compared.
_MAX_NAMES = 20
_MAX_COMPARED_CHARS = 256


def _nearest(name: str, names: tuple[str, ...]) -> str:
    """Return a question that offers the most similar name.

    Empty if there is none.
    """
    from difflib import get_close_matches

    by_key = {short.lower(): each for each in names for short in (each.rpartition("/")[2], each)}
    key = name[:_MAX_COMPARED_CHARS].lower()
    close = get_close_matches(key, by_key, n=1, cutoff=0.6) or get_close_matches(
        key.rpartition("/")[2], by_key, n=1, cutoff=0.6
    )
    return f"; did you mean {by_key[close[0]]!r}?" if close else ""


class UnknownModel(RequestError):
    """The request names a model that this server does not serve."""

    def __init__(self, model: str, available: tuple[str, ...] = ()) -> None:
        names = ", ".join(available[:_MAX_NAMES]) + (", …" if len(available) > _MAX_NAMES else "")
        super().__init__(
            f"model {model!r} is not served here{_nearest(model, available)}"
            + (f"; available: {names}" if available else "")
        )
        self.model = model
        self.available = available


class UnknownResource(RequestError):
    """The route or the object behind it does not exist."""


class Conflict(RequestError):
    """The current state does not allow the request.

    `param` is the field in conflict, if there is one.
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
    """Request line and headers exceed the server's limit."""

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(
            f"request line and headers are larger than the limit of {limit_bytes} bytes "
            "(server.max_header_bytes)"
        )
        self.limit_bytes = limit_bytes


class AuthenticationFailed(RequestError):
    """The API key is missing or wrong."""


class InvalidToken(AuthenticationFailed):
    """A token of the identity provider is not accepted.

    `reason` is plain ASCII without quotes and repeats nothing of the token.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the token is not valid for this server: {reason}")
        self.reason = reason


class PermissionDenied(RequestError):
    """The caller is authenticated, but not allowed to do this."""


class InsufficientScope(PermissionDenied):
    """The caller's key lacks the scope that the route needs."""

    def __init__(self, scope: str, path: str) -> None:
        super().__init__(f"{path} needs a key with the scope {scope!r}")
        self.scope = scope


class PolicyDenied(PermissionDenied):
    """A policy server refused the request."""


class GuardrailMatched(RequestError):
    """The prompt has text that a guardrail refuses.

    The message does not repeat it.
    """


class CapacityError(MlxctlError):
    """The server cannot take the request now.

    The same request works after `retry_after_seconds`.
    """

    def __init__(self, message: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class QueueFull(CapacityError):
    """Too many requests are waiting."""


class RateLimited(CapacityError):
    """The caller reached one of its rate limits.

    `state` is what is left of them.
    """

    def __init__(self, limit: str, *, retry_after_seconds: float, state: object) -> None:
        super().__init__(
            f"the rate limit of this key is reached ({limit}); try again in "
            f"{max(1, math.ceil(retry_after_seconds))} s",
            retry_after_seconds=retry_after_seconds,
        )
        self.state = state


class PolicyUnavailable(CapacityError):
    """A policy or identity server does not answer."""


class MemoryShortage(CapacityError):
    """Memory for a request was not freed in time.

    Other requests hold it.
    """


class ModelLoading(CapacityError):
    """The server is starting; its engine or first model loads."""


class EngineRecovering(CapacityError):
    """The engine died and is restarting."""


class ShuttingDown(CapacityError):
    """The server drains and takes no new requests."""


class ModelInUse(CapacityError):
    """The model cannot be unloaded now: it has open requests."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"model {model!r} is in use; try again when its requests have ended", retry_after_seconds=5.0
        )
        self.model = model


class ServerUnreachable(CapacityError):
    """No language model server answers at the URL."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"no server answers at {url}: {reason}")
        self.url = url


class EngineError(MlxctlError):
    """An accepted request failed through no fault of the caller."""


class EngineDied(EngineError):
    """The engine process ended while the request was open."""


class SequenceFailed(EngineError):
    """The engine aborted this request and continues with the others."""


class RequestCancelled(EngineError):
    """The request was cancelled by name, not by its client leaving."""


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


class ConnectionLost(EngineError):
    """Another server's answer broke off or cannot be parsed."""


class DeadlineExceeded(EngineError):
    """The request exceeded the server's time limit."""

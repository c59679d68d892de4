"""Errors of capacity: the same request works later."""

import math

from mlxctl.ir.errors.base import MlxctlError


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
    """No language model server answers at the URL.

    `is_other` says that something else does, `was_dropped` that an open connection broke off.
    """

    def __init__(self, url: str, reason: str, *, is_other: bool = False, was_dropped: bool = False) -> None:
        super().__init__(f"no server answers at {url}: {reason}")
        self.url = url
        self.reason = reason
        self.is_other = is_other
        self.was_dropped = was_dropped


class NoModelList(ServerUnreachable):
    """What answers at the URL lists no models."""

    def __init__(self, url: str) -> None:
        reason = "what does answer returns no list of models, as an OpenAI-compatible server would"
        super().__init__(url, reason, is_other=True)

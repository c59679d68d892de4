"""Errors of requests: the caller has to change the request."""

from mlxctl.ir.errors.base import MlxctlError, shortened

# Names in an error message, and the length up to which names are compared.
_MAX_NAMES = 20
_MAX_COMPARED_CHARS = 256


class RequestError(MlxctlError):
    """The request can never work unchanged."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


class InvalidRequest(RequestError):
    """A field is missing, of the wrong type or out of range.

    `param` is its path in the caller's protocol.
    """

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param and shortened(param)
        self.code = code


class UnknownVoice(InvalidRequest):
    """The request names a voice that the speech model does not have."""

    def __init__(self, voice: str, voices: tuple[str, ...]) -> None:
        names = ", ".join(voices[:_MAX_NAMES]) + (", …" if len(voices) > _MAX_NAMES else "")
        super().__init__(
            f"the model has no voice {voice!r}{_nearest(voice, voices)}; its voices are {names}"
            if voices
            else f"the model has no voice {voice!r}, and none with a name; leave voice out",
            param="voice",
            code="voice_not_found",
        )
        self.voice = voice
        self.voices = voices


class ContextTooLong(RequestError):
    """The prompt alone exceeds the context length, in tokens.

    `reason` is why that is less than the model's own, and how to change it.
    """

    def __init__(self, *, num_prompt_tokens: int, context_length: int, reason: str = "") -> None:
        words = f"prompt is too long: {num_prompt_tokens} tokens > {context_length} maximum"
        super().__init__(f"{words}; {reason}" if reason else words)
        self.num_prompt_tokens = num_prompt_tokens
        self.context_length = context_length


class PracticalContextExceeded(ContextTooLong):
    """The prompt exceeds the context for which probing found memory."""


class ContextOverBudget(RequestError):
    """The request's cache can never fit into the memory limit."""


class UnknownModel(RequestError):
    """The request names a model that this server does not serve."""

    def __init__(self, model: str, available: tuple[str, ...] = (), *, is_ambiguous: bool = False) -> None:
        names = ", ".join(available[:_MAX_NAMES]) + (", …" if len(available) > _MAX_NAMES else "")
        super().__init__(
            f"model {model!r} may be {' or '.join(available[:_MAX_NAMES])}; give the full name"
            if is_ambiguous
            else f"model {model!r} is not served here{_nearest(model, available)}"
            + (f"; available: {names}" if available else "")
        )
        self.model = model
        self.available = available


class UnknownResource(RequestError):
    """The route or the object behind it does not exist."""


class UnknownThread(UnknownResource):
    """No stored conversation ends with this answer.

    `code` is the error code of the protocol that has threads.
    """

    code = "thread_not_found"

    def __init__(self, message_id: str) -> None:
        super().__init__(
            f"there is no stored conversation that ends with the message {message_id!r}; send the whole "
            "conversation"
        )


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


class EncodedBody(RequestError):
    """The request body is compressed."""

    def __init__(self, encoding: str) -> None:
        super().__init__(f"content-encoding {encoding!r} is not accepted; send the body as it is")
        self.encoding = encoding


class BodyTooSlow(RequestError):
    """The request body did not arrive in time."""


class HeadersTooLarge(RequestError):
    """Request line and headers exceed the server's limit."""

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(
            f"request line and headers are larger than the limit of {limit_bytes} bytes "
            "(server.max_header_bytes)"
        )
        self.limit_bytes = limit_bytes


class LoopDetected(RequestError):
    """The request came back to this server by way of others."""


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


class FeatureDisabled(PermissionDenied):
    """The server's settings do not allow this to any caller."""

    def __init__(self, feature: str, setting: str) -> None:
        super().__init__(f"{feature} is off on this server; its operator can set {setting} = true")
        self.setting = setting


class PolicyDenied(PermissionDenied):
    """A key's policy, or a policy server, refused the request."""


class GuardrailMatched(RequestError):
    """The prompt has text that a guardrail refuses.

    The message does not repeat it.
    """


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

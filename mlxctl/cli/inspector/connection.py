"""HTTP connection to a running `mlxctl serve`, for one command."""

from collections.abc import Iterator
from typing import Any, Self, TypeVar

import httpx
import msgspec

from mlxctl.inference.remote.server_answers import (
    UNREADABLE,
    LineReader,
    convert_answer,
    decode_answer,
    read_answer,
)
from mlxctl.ir.errors import (
    AuthenticationFailed,
    CapacityError,
    InvalidRequest,
    ServerUnreachable,
    UnknownResource,
    shortened,
)
from mlxctl.ir.host_names import server_root
from mlxctl.state.certificates import client_context
from mlxctl.terminal_text import escape_line

Answer = TypeVar("Answer")

_CONNECT_SECONDS = 5.0
# A load or a long prompt takes minutes; what is only read comes soon.
_ANSWER_SECONDS = 600.0
_READ_SECONDS = 60.0
MAX_PAGES = 1000
"""Pages of one list; 100,000 agents, or half a million chunks of the prefix cache."""
_MLXCTL_PATHS = ("/cache", "/stats", "/v1/agents?")


class _Reason(msgspec.Struct, frozen=True):
    message: str


class _Problem(msgspec.Struct, frozen=True):
    error: _Reason


class ServerConnection:
    """Sends requests to one mlxctl server.

    Raises SettingsError for an invalid URL, ServerUnreachable, AuthenticationFailed, InvalidRequest,
    CapacityError while the server starts, restarts its engine or is too busy to answer, and UnknownResource
    for a server other than mlxctl's: one without the route, or whose answer has other fields. ConnectionLost
    for an answer without end.
    """

    def __init__(self, url: str, *, api_key: str | None) -> None:
        self.root = server_root(url)
        self._has_key = bool(api_key)
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx.Client(headers=headers, trust_env=False, verify=client_context(self.root))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def request(self, method: str, path: str, kind: type[Answer], body: Any = None) -> Answer:
        """Send one request and return the JSON of its response as `kind`."""
        seconds = _READ_SECONDS if method == "GET" else _ANSWER_SECONDS
        url, timeout = f"{self.root}{path}", httpx.Timeout(seconds, connect=_CONNECT_SECONDS)
        try:
            with self._client.stream(method, url, json=body, timeout=timeout) as response:
                content = read_answer(response, seconds=seconds)
        except httpx.ReadTimeout:
            raise CapacityError(
                f"the server at {self.root} did not answer within {seconds:g} s; it may be busy"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServerUnreachable(self.root, _reason(error)) from None
        self._check(response, content, path)
        return decode_answer(content, kind, url=url)

    def endless(self, path: str) -> UnknownResource:
        """Return the error for a list that does not end."""
        return UnknownResource(f"{self.root}{path} lists more than {MAX_PAGES} pages")

    def events(self, path: str, body: Any) -> Iterator[dict[str, Any]]:
        """Send a POST request and yield its server-sent events, decoded from JSON.

        Raises InvalidRequest for an event with an error.
        """
        url, timeout = f"{self.root}{path}", httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
        try:
            with self._client.stream("POST", url, json=body, timeout=timeout) as response:
                if response.status_code >= 300:
                    self._check(response, read_answer(response, seconds=_READ_SECONDS), path)
                lines = LineReader()
                for data in response.iter_bytes():
                    for line in lines.feed(data):
                        if line.startswith(b"data: {"):
                            event = decode_answer(line.removeprefix(b"data: "), dict[str, Any], url=url)
                            if "error" in event:
                                reason = convert_answer(event, _Problem, url=url).error.message
                                raise InvalidRequest(f"the server rejects this: {escape_line(reason)}")
                            yield event
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServerUnreachable(self.root, _reason(error)) from None

    def _check(self, response: httpx.Response, content: bytes, path: str) -> None:
        """Raise the error that the status of a response means."""
        status = response.status_code
        if status == 401:
            problem = "rejects this API key; give another" if self._has_key else "needs an API key; give one"
            raise AuthenticationFailed(
                f"the server at {self.root} {problem} with --api-key or MLXCTL_API_KEY"
            )
        if status == 404 and path.startswith(_MLXCTL_PATHS):
            raise UnknownResource(
                f"the server at {self.root} has no {path.split('?')[0]}; only `mlxctl serve` does"
            )
        if 300 <= status < 400:
            raise UnknownResource(
                f"the server at {self.root} redirects to {response.headers.get('location')!r}; "
                "give the final URL with --url"
            )
        if status == 503:
            raise CapacityError(f"the server is not ready: {_error_message(response, content)}")
        if status >= 400:
            message = _error_message(response, content)
            if status == 404 and path.startswith("/v1/agents/"):
                raise InvalidRequest(f"{message}; `mlxctl agents ls` lists them")
            raise InvalidRequest(f"the server rejects this: {message}")


def _error_message(response: httpx.Response, content: bytes) -> str:
    try:
        return escape_line(shortened(msgspec.json.decode(content, type=_Problem).error.message))
    except UNREADABLE:
        return f"{response.status_code} {response.reason_phrase}"


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.ConnectError) and "CERTIFICATE" not in str(error):
        return "the connection is refused, or there is no such host"
    return str(error) or type(error).__name__

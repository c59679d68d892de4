"""HTTP connection to a running `mlxctl serve`, for one command."""

from collections.abc import Iterator
from typing import Any, Self, TypeVar

import httpx

from mlxctl.inference.remote.address import ServerAddress, timeouts, too_slow, unreachable
from mlxctl.inference.remote.errors import error_message, key_problem
from mlxctl.inference.remote.server_answers import LineReader, decode_answer, read_answer
from mlxctl.ir.errors import AuthenticationFailed, CapacityError, InvalidRequest, UnknownResource

Answer = TypeVar("Answer")

# A load or a long prompt takes minutes; what is only read comes soon.
_ANSWER_SECONDS = 600.0
_READ_SECONDS = 60.0
_MLXCTL_PATHS = ("/cache", "/stats", "/v1/agents?")


class ServerConnection:
    """Sends requests to one mlxctl server.

    Raises UsageError for an invalid URL, ServerUnreachable, AuthenticationFailed, InvalidRequest,
    CapacityError while the server starts, restarts its engine or is too busy to answer, and UnknownResource
    for a server other than mlxctl's: one without the route, or whose answer has other fields. ConnectionLost
    for an answer without end.
    """

    def __init__(self, url: str, *, api_key: str | None, read_seconds: float | None = None) -> None:
        """`read_seconds` is how long to wait for what is only read."""
        address = ServerAddress.of(url, api_key)
        self.root = address.root
        self._has_key = bool(api_key)
        self._read_seconds = read_seconds or _READ_SECONDS
        self._client = address.client(seconds=_ANSWER_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def request(self, method: str, path: str, kind: type[Answer], body: Any = None) -> Answer:
        """Send one request and return the JSON of its response as `kind`."""
        return decode_answer(self.content(method, path, body), kind, url=f"{self.root}{path}")

    def content(self, method: str, path: str, body: Any = None) -> bytes:
        """Send one request and return the body of its response."""
        seconds = self._read_seconds if method == "GET" else _ANSWER_SECONDS
        url = f"{self.root}{path}"
        try:
            with self._client.stream(method, url, json=body, timeout=timeouts(seconds)) as response:
                content = read_answer(response, seconds=seconds)
        except httpx.ReadTimeout:
            raise too_slow(self.root, seconds) from None
        except httpx.HTTPError as error:
            raise unreachable(self.root, error) from None
        self._check(response, content, path)
        return content

    def events(self, path: str, body: Any) -> Iterator[dict[str, Any]]:
        """Send a POST request and yield its server-sent events, decoded from JSON.

        Raises InvalidRequest for an event with an error.
        """
        url = f"{self.root}{path}"
        try:
            with self._client.stream("POST", url, json=body) as response:
                if response.status_code >= 300:
                    self._check(response, read_answer(response, seconds=_READ_SECONDS), path)
                lines = LineReader()
                for data in response.iter_bytes():
                    for line in lines.feed(data):
                        if line.startswith(b"data: {"):
                            content = line.removeprefix(b"data: ")
                            event = decode_answer(content, dict[str, Any], url=url)
                            if "error" in event:
                                raise InvalidRequest(f"the server rejects this: {error_message(content)}")
                            yield event
        except httpx.HTTPError as error:
            raise unreachable(self.root, error) from None

    def _check(self, response: httpx.Response, content: bytes, path: str) -> None:
        """Raise the error that the status of a response means."""
        status = response.status_code
        if status < 300:
            return
        if status == 401:
            raise key_problem(self.root, has_key=self._has_key)
        if status == 404 and path.startswith(_MLXCTL_PATHS):
            raise UnknownResource(
                f"the server at {self.root} has no {path.split('?')[0]}; only `mlxctl serve` does"
            )
        if status < 400:
            raise UnknownResource(
                f"the server at {self.root} redirects to {response.headers.get('location')!r}; "
                "give the final URL with --url"
            )
        message = error_message(content) or f"{status} {response.reason_phrase}"
        if status == 503:
            raise CapacityError(f"the server is not ready: {message}")
        if status == 404 and path.startswith("/v1/agents/"):
            raise InvalidRequest(f"{message}; `mlxctl agents ls` lists them")
        kind = AuthenticationFailed if status == 403 else InvalidRequest
        raise kind(f"the server rejects this: {message}")

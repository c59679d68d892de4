"""HTTP connection to a running `mlxctl serve`, for one command."""

import json
from collections.abc import Iterator
from typing import Any, Self

import httpx

from mlxctl.certificates import client_context
from mlxctl.errors import (
    AuthenticationFailed,
    CapacityError,
    InvalidRequest,
    ServerUnreachable,
    UnknownResource,
)
from mlxctl.ir.host_names import server_root

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 600.0
_MLXCTL_PATHS = ("/cache", "/stats", "/v1/agents?")


class ServerConnection:
    """Sends requests to one mlxctl server.

    Raises SettingsError for an invalid URL, ServerUnreachable, AuthenticationFailed, InvalidRequest,
    CapacityError while the server starts or restarts its engine, and UnknownResource for a server other than
    mlxctl's.
    """

    def __init__(self, url: str, *, api_key: str | None) -> None:
        self.root = server_root(url)
        self._has_key = bool(api_key)
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        timeout = httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
        self._client = httpx.Client(
            headers=headers, timeout=timeout, trust_env=False, verify=client_context(self.root)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def request(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send one request and return the JSON object of its response."""
        try:
            response = self._client.request(method, f"{self.root}{path}", json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServerUnreachable(self.root, _reason(error)) from None
        self._check(response, path)
        try:
            data: dict[str, Any] = response.json()
        except json.JSONDecodeError:
            raise UnknownResource(f"the server at {self.root} answers {path} in an unknown format") from None
        return data

    def events(self, path: str, body: Any) -> Iterator[dict[str, Any]]:
        """Send a POST request and yield its server-sent events, decoded from JSON."""
        try:
            with self._client.stream("POST", f"{self.root}{path}", json=body) as response:
                if response.status_code >= 400:
                    response.read()
                self._check(response, path)
                for line in response.iter_lines():
                    if line.startswith("data: {"):
                        yield json.loads(line.removeprefix("data: "))
        except (httpx.HTTPError, httpx.InvalidURL, json.JSONDecodeError) as error:
            raise ServerUnreachable(self.root, _reason(error)) from None

    def _check(self, response: httpx.Response, path: str) -> None:
        """Raise the error that the status of a response means."""
        if response.status_code == 401:
            problem = "rejects this API key; give another" if self._has_key else "needs an API key; give one"
            raise AuthenticationFailed(
                f"the server at {self.root} {problem} with --api-key or MLXCTL_API_KEY"
            )
        if response.status_code == 404 and path.startswith(_MLXCTL_PATHS):
            raise UnknownResource(
                f"the server at {self.root} has no {path.split('?')[0]}; only `mlxctl serve` does"
            )
        if response.status_code == 503:
            raise CapacityError(f"the server is not ready: {_error_message(response)}")
        if response.status_code >= 400:
            if response.status_code == 404 and path.startswith("/v1/agents/"):
                raise InvalidRequest(f"{_error_message(response)}; `mlxctl agents ls` lists them")
            raise InvalidRequest(f"the server rejects this: {_error_message(response)}")


def _error_message(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return f"{response.status_code} {response.reason_phrase}"


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.ConnectError) and "CERTIFICATE" not in str(error):
        return "the connection is refused, or there is no such host"
    return str(error) or type(error).__name__

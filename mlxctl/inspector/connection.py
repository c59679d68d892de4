"""A running `mlxctl serve`, asked over HTTP for one command.

Knows addresses and refusals, not what answers mean.
"""

import json
from typing import Any, Self

import httpx

from mlxctl.certificates import client_context
from mlxctl.errors import AuthenticationFailed, InvalidRequest, ServerUnreachable, UnknownResource

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 600.0
_OURS_ALONE = ("/cache", "/stats", "/v1/agents?")


class ServerConnection:
    """Raises ServerUnreachable, AuthenticationFailed, UnknownResource where there is no such server, and
    InvalidRequest.
    """

    def __init__(self, url: str, *, api_key: str | None) -> None:
        whole = url if "://" in url else f"http://{url}"
        self.root = whole.rstrip("/").removesuffix("/v1")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        timeout = httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
        self._client = httpx.Client(
            headers=headers, timeout=timeout, trust_env=False, verify=client_context(self.root)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Make one request and return the JSON object of its answer."""
        try:
            answer = self._client.request(method, f"{self.root}{path}", json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServerUnreachable(self.root, str(error) or type(error).__name__) from None
        if answer.status_code in (401, 403):
            raise AuthenticationFailed(f"the server at {self.root} wants another key; give it with --api-key")
        if answer.status_code == 404 and path.startswith(_OURS_ALONE):
            raise UnknownResource(
                f"the server at {self.root} has no {path.split('?')[0]}; only `mlxctl serve` does"
            )
        if answer.status_code >= 400:
            raise InvalidRequest(f"the server refuses this: {_complaint(answer)}")
        try:
            found: dict[str, Any] = answer.json()
        except json.JSONDecodeError:
            raise UnknownResource(f"the server at {self.root} answers {path} in words of its own") from None
        return found


def _complaint(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return f"{answer.status_code} {answer.reason_phrase}"

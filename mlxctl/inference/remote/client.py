"""Another server as `InferenceService` would be: open, wait, start, close. Event-loop thread only."""

from typing import Any, TypeVar

import httpx
import msgspec

from mlxctl.errors import CapacityError, ServerUnreachable, SettingsError, UnknownModel, UnknownResource
from mlxctl.inference.remote.errors import refusal
from mlxctl.inference.remote.generation import RemoteGeneration
from mlxctl.inference.remote.model_list import RemoteModel, read_models
from mlxctl.inference.remote.request_body import encode_request
from mlxctl.inference.request_log import RequestView
from mlxctl.ir import GenerationRequest

_Answer = TypeVar("_Answer")

_CONNECT_SECONDS = 5.0
_LIST_SECONDS = 10.0
# A long prompt on a small machine is silent for minutes on servers that send no keep-alive.
_SILENCE_SECONDS = 1800.0


class RemoteInference:
    """The models behind one base URL (`http://host:port`, with or without `/v1`)."""

    def __init__(self, url: str, *, api_key: str | None = None) -> None:
        self.url = _base_url(url)
        self._models: tuple[RemoteModel, ...] = ()
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None),
            # A proxy of the environment is for the internet; it has no business between a person and their
            # own server.
            trust_env=False,
        )

    async def wait_ready(self) -> None:
        """Ask once what is served.

        Raises ServerUnreachable, CapacityError while models are loaded, AuthenticationFailed.
        """
        try:
            response = await self._client.get(f"{self.url}/models", timeout=_LIST_SECONDS)
        except httpx.HTTPError as error:
            raise ServerUnreachable(self.url, _reason(error)) from None
        if response.status_code != 200:
            raise refusal(
                response.status_code, response.content, retry_after=response.headers.get("retry-after")
            )
        self._models = read_models(response.content, url=self.url)
        if not self._models:
            raise CapacityError(f"the server at {self.url} serves no model yet")

    async def close(self) -> None:
        """Leave every open answer."""
        await self._client.aclose()

    def models(self) -> tuple[RemoteModel, ...]:
        """The models that requests can name, as of the last `wait_ready`."""
        return self._models

    def find_model(self, name: str | None) -> RemoteModel:
        """Return the model called `name`, or the first one. Raises UnknownModel."""
        if name is None:
            return self._models[0]
        for model in self._models:
            if model.name == name:
                return model
        raise UnknownModel(name, tuple(model.name for model in self._models))

    @property
    def root(self) -> str:
        """The URL without its `/v1`."""
        return self.url.removesuffix("/v1")

    async def observe(self) -> tuple[dict[str, Any], list[RequestView]]:
        """Return what an mlxctl server tells of itself: its counters and its requests.

        Raises what a refusal means.
        """
        stats = await self._look("/stats", dict[str, Any])
        return stats, (await self._look("/requests", dict[str, list[RequestView]])).get("requests", [])

    async def _look(self, path: str, kind: type[_Answer]) -> _Answer:
        try:
            response = await self._client.get(f"{self.root}{path}", timeout=_LIST_SECONDS)
        except httpx.HTTPError as error:
            raise ServerUnreachable(self.root, _reason(error)) from None
        if response.status_code == 404:
            raise UnknownResource(
                f"the server at {self.root} has no {path}; only `mlxctl serve` tells what it is doing"
            )
        if response.status_code != 200:
            raise refusal(
                response.status_code, response.content, retry_after=response.headers.get("retry-after")
            )
        try:
            return msgspec.json.decode(response.content, type=kind)
        except msgspec.MsgspecError:
            raise UnknownResource(f"the server at {self.root} answers {path} in words of its own") from None

    async def generate(self, request: GenerationRequest) -> RemoteGeneration:
        """Send the request; returns when the server has accepted it.

        Raises what its refusal means, and ServerUnreachable.
        """
        body = encode_request(request)
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        message = self._client.build_request(
            "POST", f"{self.url}/chat/completions", content=body, headers=headers
        )
        try:
            response = await self._client.send(message, stream=True)
            if response.status_code == 200:
                return RemoteGeneration(response)
            refused = await response.aread()
        except httpx.HTTPError as error:
            raise ServerUnreachable(self.url, _reason(error)) from None
        await response.aclose()
        raise refusal(response.status_code, refused, retry_after=response.headers.get("retry-after"))


def _base_url(url: str) -> str:
    """Return the URL that ends in /v1. Raises SettingsError for what is no URL."""
    whole = url if "://" in url else f"http://{url}"
    try:
        parsed = httpx.URL(whole)
    except httpx.InvalidURL as error:
        raise SettingsError(f"{url!r} is no URL: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise SettingsError(f"{url!r} is no URL of a server; write http://HOST:PORT")
    base = whole.rstrip("/")
    return base if base.endswith("/v1") else f"{base}/v1"


def _reason(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return f"it does not react within {_CONNECT_SECONDS:g} s"
    if isinstance(error, httpx.ConnectError):
        return "the connection is refused, or there is no such host"
    return f"the connection failed ({type(error).__name__})"

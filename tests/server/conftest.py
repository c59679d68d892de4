"""Fixtures: the application without an engine, and servers for all modules."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import falcon
import openai
import pytest
from falcon import testing

from mlxctl.server import create_app
from mlxctl.server.http.disconnect import Application, Event, Receive, Scope, Send
from mlxctl.server.wiring import Services, build_services
from mlxctl.state.settings import (
    ModelSettings,
    OidcSettings,
    PolicySettings,
    PoolSettings,
    ServerSettings,
    Settings,
)
from tests import tiny_models

from .process import ServerProcess, serving


@pytest.fixture(scope="session")
def endless_model() -> Path:
    """A model that never ends by itself and generates printable ASCII."""
    return tiny_models.model("endless")


@pytest.fixture(scope="session")
def server(endless_model: Path) -> Iterator[ServerProcess]:
    """A server for the endless model, called `tiny`; other names are unknown."""
    with serving(endless_model, "--no-any-model-name") as running:
        yield running


@pytest.fixture(scope="module")
def openai_client(server: ServerProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def anthropic_client(server: ServerProcess) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="unused", max_retries=0) as client:
        yield client


class LocalClient(testing.TestClient):
    """Test client with a local Host header.

    It stays connected until it is answered.
    """

    def __init__(self, application: Application) -> None:
        async def stays(scope: Scope, receive: Receive, send: Send) -> None:
            async def receive_all_but_the_end() -> Event:
                event = await receive()
                if event["type"] == "http.disconnect":
                    await asyncio.Event().wait()
                return event

            await application(scope, receive_all_but_the_end if scope["type"] == "http" else receive, send)

        super().__init__(stays)

    def simulate_request(self, *arguments: Any, **more: Any) -> testing.Result:
        return super().simulate_request(*arguments, **{"host": "localhost", **more})


_UNSTARTED: list[Services] = []


@pytest.fixture(scope="module", autouse=True)
def _close_unstarted_apps() -> Iterator[None]:
    """End the preparation processes of unstarted applications.

    On the event loop of Falcon's own client.
    """
    yield
    while _UNSTARTED:
        falcon.async_to_sync(_UNSTARTED.pop().inference.preparation.close)


def unstarted_services() -> Services:
    """Return the services of the last unstarted application."""
    return _UNSTARTED[-1]


def unstarted_app(
    model: Path,
    settings: ServerSettings,
    policy: PolicySettings | None = None,
    *,
    oidc: OidcSettings | None = None,
) -> testing.TestClient:
    """A client of the application before the engine runs.

    Every route is there, no generation is taken.
    """

    async def build() -> testing.TestClient:
        services = build_services(
            Settings(
                server=settings,
                model=ModelSettings(path=model, name="tiny"),
                pool=PoolSettings(any_model_name=False),
                policy=policy or PolicySettings(),
                oidc=oidc or OidcSettings(),
            )
        )
        _UNSTARTED.append(services)
        return LocalClient(create_app(services, settings))

    return asyncio.run(build())

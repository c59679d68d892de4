"""The server as a part of another ASGI application."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anthropic
import httpx
import openai
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

import mlxctl
from mlxctl.ir.errors import ModelError, SettingsError
from mlxctl.server.embedded import EmbeddedServer
from mlxctl.server.http.disconnect import Application
from mlxctl.state.settings import ServerSettings

from .conftest import unstarted_app
from .process import wait_for

MODEL = "mlxctl-demo"
NO_DISK = {"engine": {"cache_disk_bytes": 0}}
QUESTION = {"role": "user", "content": "Hello!"}


@contextlib.contextmanager
def hosting(application: Application) -> Iterator[str]:
    """Serve the application by uvicorn in a thread; yield its URL."""
    host = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error", lifespan="on"))
    thread = threading.Thread(target=host.run)
    thread.start()
    wait_for(lambda: host.started or not thread.is_alive(), seconds=60)
    assert host.started
    try:
        yield f"http://127.0.0.1:{host.servers[0].sockets[0].getsockname()[1]}"
    finally:
        host.should_exit = True
        thread.join()


def outer_application(server: EmbeddedServer) -> Application:
    """Return an application with one route, and the server below `/llm`."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with server:
            yield

    async def hello(_: Request) -> PlainTextResponse:
        return PlainTextResponse("outer")

    return Starlette(routes=[Route("/hello", hello), Mount("/llm", app=server)], lifespan=lifespan)


@pytest.fixture(scope="module")
def url(endless_model: Path) -> Iterator[str]:
    settings = {**NO_DISK, "server": {"drain_seconds": 1.0}}
    server = mlxctl.embed("demo", endless_model, settings=settings)
    with hosting(outer_application(server)) as address:
        yield address


def test_sdks_answer_below_the_mounted_path(url: str) -> None:
    with openai.OpenAI(base_url=f"{url}/llm/v1", api_key="unused", max_retries=0) as client:
        answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello!"}])
    with anthropic.Anthropic(base_url=f"{url}/llm", api_key="unused", max_retries=0) as client:
        message = client.messages.create(
            model=MODEL, max_tokens=64, messages=[{"role": "user", "content": "Hello!"}]
        )

    assert answer.choices[0].message.content
    assert message.content[-1].type == "text"
    assert httpx.get(f"{url}/hello").text == "outer"


def test_page_and_openapi_know_the_mounted_path(url: str) -> None:
    page = httpx.get(f"{url}/llm/", headers={"Accept": "text/html"})

    assert 'data-root="/llm"' in page.text
    assert httpx.get(f"{url}/llm/ui/page.js").status_code == 200
    assert httpx.get(f"{url}/llm/openapi.json").json()["servers"] == [{"url": "/llm"}]
    assert httpx.get(f"{url}/llm/stats").json()["server"]["owner"] == "embedded"


def test_client_that_leaves_stops_the_generation(url: str, endless_model: Path) -> None:
    body = {"model": endless_model.name, "messages": [QUESTION], "max_tokens": 100_000, "stream": True}
    with httpx.stream("POST", f"{url}/llm/v1/chat/completions", json=body, timeout=60) as response:
        next(response.iter_lines())

    wait_for(lambda: newest_state(url) == "disconnected", seconds=20)


def newest_state(url: str) -> str:
    newest: dict[str, str] = httpx.get(f"{url}/llm/requests").json()["requests"][0]
    return newest["state"]


def test_outermost_application_handles_the_lifespan_itself() -> None:
    with hosting(mlxctl.embed("demo", settings=NO_DISK, in_process=True)) as url:
        answer = httpx.post(
            f"{url}/v1/chat/completions", json={"model": MODEL, "messages": [QUESTION]}, timeout=60
        )

    assert answer.json()["choices"][0]["message"]["content"]


def test_request_before_the_lifespan_is_an_error_that_names_the_fix() -> None:
    async def ask() -> None:
        transport = httpx.ASGITransport(mlxctl.embed("demo"))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await client.get("/health")

    with pytest.raises(RuntimeError, match="async with server"):
        asyncio.run(ask())


def test_signals_stay_with_the_outer_application() -> None:
    async def handlers() -> list[object]:
        async with mlxctl.embed("demo", settings=NO_DISK):
            return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]

    assert asyncio.run(handlers())[1:] == before


def test_unknown_setting_is_named_with_the_nearest_one() -> None:
    with pytest.raises(SettingsError, match="unknown section 'servr' in the given settings"):
        mlxctl.embed("demo", settings={"servr": {"drain_seconds": 1.0}})
    with pytest.raises(SettingsError, match=r"'server.drain_second'.*did you mean drain_seconds"):
        mlxctl.embed("demo", settings={"server": {"drain_second": 1.0}})


def test_unusable_model_fails_the_start() -> None:
    async def start() -> None:
        async with mlxctl.embed("no-such-model"):
            pass

    with pytest.raises(ModelError, match="no-such-model"):
        asyncio.run(start())


def test_configured_root_path_is_optional_in_requests(endless_model: Path) -> None:
    client = unstarted_app(endless_model, ServerSettings(root_path="llm/"))

    paths = ("/llm/v1/models", "/v1/models", "/llmx/v1/models")

    assert [client.simulate_get(path).status_code for path in paths] == [200, 200, 404]
    assert client.simulate_get("/openapi.json").json["servers"] == [{"url": "/llm"}]

"""Chat and monitor with a server that answers anything."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from mlxctl.chat.chat_backend import RemoteBackend, observe
from mlxctl.chat.screens.monitor import MonitorApp
from mlxctl.inference.remote import RemoteInference
from tests.hostile_server import ENDLESS, UNEXPECTED, HostileServer, hostile

from .screen_driver import Screen, drive
from .test_plain import run_on_terminal

RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
COMPLETIONS = "/v1/chat"


def sse(*events: str) -> bytes:
    """Return a stream of these events, without its end."""
    return "".join(f"data: {event}\n\n" for event in events).encode()


BROKEN_STREAMS = {
    **UNEXPECTED,
    "wrong types": sse('{"choices": [{"delta": {"content": 5}}]}'),
    "no end": sse('{"choices": [{"delta": {"content": "half an"}}]}'),
    "negative counts": sse('{"choices": [], "usage": {"prompt_tokens": -1}}'),
    "huge counts": sse('{"choices": [], "usage": {"completion_tokens": 1' + "0" * 400 + "}}"),
    "invalid UTF-8": b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n',
    "a deep event": sse('{"choices": ' + "[" * 100_000),
    "huge progress": b": prefill " + b"9" * 5000 + b"/1\n",
    "an error": sse('{"error": {"message": "evil\\u001b[31m\\nmlxctl: forged"}}'),
}


def chat_with(server: HostileServer, driver: Callable[[Screen], Awaitable[None]]) -> None:
    drive(RemoteBackend(server.url), driver)


async def monitored(server: HostileServer, driver: Callable[[Screen], Awaitable[None]]) -> None:
    """Run the monitor of this server."""
    remote = RemoteInference(server.url)
    app = MonitorApp(
        partial(observe, remote),
        remote.cancel,
        remote.cached_entries,
        address=remote.root,
        interval_seconds=0.05,
        close=remote.close,
    )
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await driver(Screen(app, pilot))


def test_chat_shows_texts_of_a_server_escaped() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("is ready")
        await screen.ask("hello")
        shown = await screen.wait_for("cached 0 of 5")
        assert re.search(r"Thought for .* s\n +evil␛\]0;PWNED␇", shown)
        assert RAW.search(shown.replace("\n", "")) is None

    with hostile() as server:
        chat_with(server, interact)


def test_models_with_hostile_names_can_be_chosen() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("is ready")
        await screen.press("f4")
        shown = await screen.wait_for("● evil␛]0;PWNED␇")
        assert RAW.search(shown.replace("\n", "")) is None

    with hostile() as server:
        chat_with(server, interact)


@pytest.mark.parametrize("kind", BROKEN_STREAMS)
def test_broken_answer_is_a_notice_in_the_chat(kind: str) -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("is ready")
        await screen.ask("hello")
        shown = await screen.wait_for("Error: ")
        assert RAW.search(shown.replace("\n", "")) is None

    with hostile(200, BROKEN_STREAMS[kind], path=COMPLETIONS) as server:
        chat_with(server, interact)


def test_answer_without_end_can_be_stopped() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("is ready")
        await screen.ask("hello")
        await screen.wait_for("xxxx")
        await screen.press("escape")
        await screen.wait_for("Stopped.")

    with hostile(200, ENDLESS, path=COMPLETIONS) as server:
        chat_with(server, interact)


def test_chat_reacts_while_the_server_is_silent() -> None:
    async def interact(screen: Screen) -> None:
        await asyncio.to_thread(server.held.wait)
        await screen.press("f1")
        await screen.wait_for("Esc")

    with hostile(hold=True) as server:
        chat_with(server, interact)


@pytest.mark.parametrize("kind", UNEXPECTED)
def test_chat_names_a_server_that_lists_no_models(kind: str) -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("Retrying every")

    with hostile(200, UNEXPECTED[kind]) as server:
        chat_with(server, interact)


def test_monitor_shows_texts_of_a_server_escaped() -> None:
    async def interact(screen: Screen) -> None:
        shown = await screen.wait_for("evil␛]0;PWNED␇")
        assert RAW.search(shown.replace("\n", "")) is None
        await screen.press("c")
        shown = await screen.wait_for("hits")
        assert RAW.search(shown.replace("\n", "")) is None

    with hostile() as server:
        asyncio.run(monitored(server, interact))


@pytest.mark.parametrize("kind", UNEXPECTED)
def test_monitor_shows_an_unexpected_answer_as_an_error(kind: str) -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("is not in the expected format")

    with hostile(200, UNEXPECTED[kind], path="/requests" if kind == "a list" else "/stats") as server:
        asyncio.run(monitored(server, interact))


def test_plain_chat_shows_texts_of_a_server_escaped() -> None:
    with hostile() as server:
        shown = run_on_terminal(server.url, ("is ready", "hello\n"), ("evil", "/quit\n"))
    assert "evil␛]0;PWNED␇" in shown
    assert not {"\x07", "\x9b", "\u202e"} & set(shown)
    assert "\x1b]" not in shown

"""A real Chromium, headless, on real servers.

`CHROMIUM` names another browser than the usual ones.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from mlxctl.probe.questions import SPOKEN_SENTENCES
from tests import tiny_models
from tests.library.tiny_hub import TinyHub, running
from tests.server.hosted import HostedServer, hosting
from tests.server.process import ServerProcess, serving
from tests.tiny_models.audio_samples import speech_audio

KEY = "web-page-key"
SLOW_REPOSITORY = "org/slow"
FOREIGN_NAME = "foreign.example"
"""A name of loopback in the browser."""
MICROPHONE_SECONDS = 5
"""Longer than the sentence that the fake microphone hears."""
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_ON_MACOS = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
# Long enough for a machine that runs all other tests too; a condition that holds ends the wait at once.
_LONGEST_MS = 120_000
expect.set_options(timeout=_LONGEST_MS)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser; its sandbox needs a user that is not root.

    Its microphone hears a sentence, then silence.
    """
    microphone = tmp_path_factory.mktemp("microphone") / "sound.wav"
    microphone.write_bytes(speech_audio(SPOKEN_SENTENCES[0], every_seconds=60))
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), _ON_MACOS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=path,
            args=[
                f"--host-resolver-rules=MAP {FOREIGN_NAME} 127.0.0.1",
                "--use-fake-device-for-media-stream",
                f"--use-file-for-fake-audio-capture={microphone}",
                *(["--no-sandbox"] if os.getuid() == 0 else []),
            ],
        )
        yield started
        started.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of the demo model; its library has another one."""
    files = {"config.json": b"{}", "model.safetensors": bytes(64 * 1024 * 2000)}
    cache_dir, library_dir = tmp_path_factory.mktemp("hub"), tmp_path_factory.mktemp("library")
    shutil.copytree(tiny_models.model("qwen3"), library_dir / "qwen3")
    with (
        running(TinyHub(files={SLOW_REPOSITORY: files}, seconds_per_piece=0.02)) as hub,
        serving(
            None, **hub.server_settings(cache_dir), MLXCTL_LIBRARY_MODELS_DIRS=str(library_dir)
        ) as process,
    ):
        yield process


@pytest.fixture(scope="session")
def locked_server() -> Iterator[HostedServer]:
    """A server with a key and endless answers."""
    with hosting(tiny_models.model("endless"), "--api-key", KEY) as running_server:
        yield running_server


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty tab; errors on its console fail the test."""
    with opened_page(browser) as opened:
        yield opened


@contextmanager
def opened_page(browser: Browser) -> Iterator[Page]:
    """Yield an empty tab; errors on its console raise AssertionError."""
    context = browser.new_context(viewport={"width": 1000, "height": 700})
    context.set_default_timeout(_LONGEST_MS)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    # The browser itself logs a refused key or message and a server that is gone.
    expected = ("status of 400", "status of 401", "net::ERR_")
    assert [error for error in errors if not any(text in error for text in expected)] == []

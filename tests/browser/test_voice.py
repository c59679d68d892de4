"""Voice on the web page: a fake microphone, and answers read aloud."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests import tiny_models
from tests.browser.chat_section import ask, open_chat
from tests.browser.conftest import MICROPHONE_SECONDS
from tests.server.hosted import HostedServer, hosting
from tests.server.process import ServerProcess

PLAYED = """
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (...times) {
  console.log(`played ${this.buffer.duration} s`);
  return start.apply(this, times);
};
"""


@pytest.fixture(scope="module")
def voice_server() -> Iterator[HostedServer]:
    """A server that chats, transcribes and speaks."""
    models = ("demo", str(tiny_models.trained("whisper_words")), str(tiny_models.speech("soprano")))
    with hosting(None, *(option for model in models for option in ("--model", model))) as running:
        yield running


def test_recorded_words_are_inserted(page: Page, voice_server: HostedServer) -> None:
    page.context.grant_permissions(["microphone"])
    open_chat(page, voice_server)
    message = page.get_by_label("Message")
    message.fill("He said:")
    page.get_by_role("button", name="Record").click()
    stop = page.get_by_role("button", name="Stop recording")
    expect(stop).to_be_enabled()
    # The microphone plays its file at its own pace.
    page.wait_for_timeout(1000 * MICROPHONE_SECONDS)
    stop.click()
    expect(message).to_have_value("He said: please open the window")
    expect(page.get_by_role("button", name="Record")).to_be_enabled()


def test_a_refused_microphone_is_explained(page: Page, voice_server: HostedServer) -> None:
    open_chat(page, voice_server)
    page.get_by_role("button", name="Record").click()
    expect(page.get_by_text("The browser does not allow the microphone.")).to_be_visible()
    expect(page.get_by_role("button", name="Record")).to_be_enabled()


def test_answers_are_read_aloud_until_stopped(page: Page, voice_server: HostedServer) -> None:
    page.add_init_script(PLAYED)
    open_chat(page, voice_server)
    ask(page, "Hello!")
    read = page.get_by_role("button", name="Read aloud")
    with page.expect_console_message() as played, page.expect_request("**/v1/audio/speech") as sent:
        read.click()
    assert sent.value.post_data_json["input"] == "Hello! How can I help you?"
    assert re.fullmatch(r"played [\d.]+ s", played.value.text)
    expect(read).to_be_visible()
    read.click()
    page.get_by_role("button", name="Stop reading").click()
    expect(read).to_be_visible()


def test_without_models_for_audio_there_are_no_buttons(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    ask(page, "Hello!")
    for name in ("Record", "Read aloud"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)

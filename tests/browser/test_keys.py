"""The key dialog of the web page."""

from playwright.sync_api import Page, expect

from tests.browser.chat_section import open_locked_chat
from tests.browser.conftest import KEY
from tests.server.hosted import HostedServer


def test_wrong_key_is_named_and_the_right_one_stays_in_the_tab(
    page: Page, locked_server: HostedServer
) -> None:
    page.goto(f"{locked_server.url}/")
    dialog = page.get_by_role("dialog", name="API key")
    page.get_by_label("Key", exact=True).fill("wrong")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("does not accept this key")
    open_locked_chat(page, locked_server, KEY)
    page.reload()
    expect(page.locator("#model .name")).to_have_text("tiny")
    expect(dialog).to_be_hidden()


def test_closed_dialog_can_be_opened_again(page: Page, locked_server: HostedServer) -> None:
    page.goto(f"{locked_server.url}/")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    expect(page.get_by_role("alert")).to_contain_text("needs an API key")
    page.get_by_role("button", name="Enter a key").click()
    expect(page.get_by_label("Key", exact=True)).to_be_focused()

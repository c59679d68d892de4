"""Chats that the browser stores: list, export, two tabs, no storage."""

from pathlib import Path

from playwright.sync_api import Page, expect

from mlxctl.chat.export import load_exported
from tests.browser.chat_section import ask, open_chat
from tests.server.process import ServerProcess

_BLOCKED = """for (const name of ["indexedDB", "sessionStorage"]) {
  Object.defineProperty(window, name, { get() { throw new DOMException("blocked", "SecurityError"); } });
}"""


def open_list(page: Page) -> None:
    page.get_by_role("button", name="Chats").click()
    expect(page.get_by_label("Search chats")).to_be_focused()


def test_earlier_chat_is_found_by_its_text_and_continued(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    ask(page, "Hello!")
    page.get_by_role("button", name="New chat").click()
    ask(page, "Count to ten, please.")
    open_list(page)
    titles = page.locator(".chats .title")
    expect(titles).to_have_text(["Count to ten, please.", "Hello!"])
    page.get_by_label("Search chats").fill("how can i help")
    expect(titles).to_have_text(["Hello!"])
    titles.click()
    expect(page.locator(".assistant")).to_contain_text("Hello! How can I help you?")
    expect(page).to_have_title("Hello! - mlxctl")


def test_chat_is_renamed_and_deleted(page: Page, server: ServerProcess) -> None:
    page.on("dialog", lambda dialog: dialog.accept("Greeting"))
    open_chat(page, server)
    ask(page, "Hello!")
    open_list(page)
    page.get_by_role("button", name="Rename").click()
    expect(page.locator(".chats .title")).to_have_text("Greeting")
    page.get_by_role("button", name="Delete: Greeting").click()
    expect(page.locator(".chats")).to_have_text("No chats yet.")
    page.get_by_role("button", name="Close").click()
    expect(page.locator(".message")).to_have_count(0)


def test_exported_chat_opens_in_the_terminal(page: Page, server: ServerProcess, tmp_path: Path) -> None:
    open_chat(page, server)
    page.get_by_text("Options").click()
    page.get_by_label("System prompt").fill("Be brief.")
    ask(page, "Hello!")
    open_list(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    download.value.save_as(tmp_path / "chat.json")
    system_prompt, messages = load_exported(tmp_path / "chat.json")
    assert system_prompt == "Be brief."
    assert [item.message.role for item in messages] == ["user", "assistant"]


def test_chat_continued_in_two_tabs_becomes_two_chats(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    ask(page, "Hello!")
    other = page.context.new_page()
    open_chat(other, server)
    open_list(other)
    other.locator(".chats .title").click()
    ask(other, "Count to ten, please.")
    ask(page, "Please repeat: zebra")
    open_list(page)
    expect(page.locator(".chats .title")).to_have_count(2)
    page.get_by_label("Search chats").fill("zebra")
    expect(page.locator(".chats .title")).to_have_count(1)


def test_full_storage_is_named_and_the_chat_goes_on(page: Page, server: ServerProcess) -> None:
    session = page.context.new_cdp_session(page)
    session.send("Storage.overrideQuotaForOrigin", {"origin": server.url, "quotaSize": 1})
    open_chat(page, server)
    ask(page, "Hello!")
    expect(page.get_by_role("alert")).to_contain_text("storage is full")
    ask(page, "Hello again!")
    expect(page.locator(".message")).to_have_count(4)


def test_blocked_storage_is_named_and_the_chat_goes_on(page: Page, server: ServerProcess) -> None:
    page.add_init_script(_BLOCKED)
    open_chat(page, server)
    ask(page, "Hello!")
    expect(page.get_by_role("alert")).to_contain_text("does not let this page store data")
    page.get_by_role("button", name="Chats").click()
    expect(page.get_by_role("dialog")).to_contain_text("does not let this page store chats")

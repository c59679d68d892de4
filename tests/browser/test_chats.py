"""Chats that the browser stores: list, export, two tabs, no storage."""

import json
from pathlib import Path

from playwright.sync_api import Page, expect

from mlxctl.chat.export import load_exported
from tests.browser.chat_section import ask, open_chat
from tests.server.process import ServerProcess

_BLOCKED = """for (const name of ["indexedDB", "sessionStorage"]) {
  Object.defineProperty(window, name, { get() { throw new DOMException("blocked", "SecurityError"); } });
}"""


def act(page: Page, title: str, action: str) -> None:
    """Choose an action of a chat in the sidebar."""
    page.get_by_role("button", name=f"Actions: {title}", exact=True).click()
    page.get_by_role("menuitem", name=action).click()


def test_earlier_chat_is_found_by_its_text_and_continued(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    ask(page, "Hello!")
    page.get_by_role("button", name="New chat").click()
    ask(page, "Count to ten, please.")
    titles = page.locator(".chats .title")
    expect(titles).to_have_text(["Count to ten, please.", "Hello!"])
    page.keyboard.press("Control+k")
    page.keyboard.type("how can i help")
    expect(titles).to_have_text(["Hello!"])
    titles.click()
    expect(page.locator(".assistant")).to_contain_text("Hello! How can I help you?")
    expect(page).to_have_title("Hello! - mlxctl")


def test_chat_is_renamed_pinned_and_deleted(page: Page, server: ServerProcess) -> None:
    page.on("dialog", lambda dialog: dialog.accept("Greeting"))
    open_chat(page, server)
    ask(page, "Hello!")
    act(page, "Hello!", "Rename")
    expect(page.locator(".chats .title")).to_have_text("Greeting")
    expect(page.locator("#title")).to_have_text("Greeting")
    act(page, "Greeting", "Pin")
    expect(page.locator(".chats h2")).to_have_text("Pinned")
    act(page, "Greeting", "Delete")
    expect(page.locator(".chats")).to_have_text("No chats yet.")
    expect(page.locator(".message")).to_have_count(0)


def test_exported_chat_opens_in_the_terminal_and_in_the_page(
    page: Page, server: ServerProcess, tmp_path: Path
) -> None:
    page.on("dialog", lambda dialog: dialog.accept())
    open_chat(page, server)
    page.get_by_role("button", name="Options", exact=True).click()
    page.get_by_label("System prompt").fill("Be brief.")
    ask(page, "Hello!")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".branches")).to_have_text("2/2")
    page.get_by_role("button", name="Actions of this chat").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Save as JSON").click()
    download.value.save_as(tmp_path / "chat.json")
    system_prompt, messages = load_exported(tmp_path / "chat.json")
    assert system_prompt == "Be brief."
    assert [item.message.role for item in messages] == ["user", "assistant"]
    act(page, "Hello!", "Delete")
    page.locator("#chats input[type=file]").set_input_files(tmp_path / "chat.json")
    expect(page.locator(".branches")).to_have_text("2/2")
    expect(page.locator(".user .body")).to_have_text("Hello!")
    expect(page.locator(".chats .title")).to_have_text("Hello!")


def test_file_that_is_no_chat_is_named(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    link = {
        "role": "user",
        "content": [{"text": "a"}, {"type": "image_url", "image_url": {"url": "http://b"}}],
    }
    for document in ({"messages": []}, {"messages": [link]}, {"mlxctl": {"entries": [{"branches": [[]]}]}}):
        page.locator("#chats input[type=file]").set_input_files(
            {"name": "c.json", "mimeType": "application/json", "buffer": json.dumps(document).encode()}
        )
        expect(page.get_by_role("alert")).to_contain_text("c.json has no chat")
        page.get_by_role("alert").evaluate("alert => alert.remove()")
    expect(page.locator(".message")).to_have_count(0)


def test_chat_continued_in_two_tabs_becomes_two_chats(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    ask(page, "Hello!")
    other = page.context.new_page()
    open_chat(other, server)
    other.locator(".chats .title").click()
    ask(other, "Count to ten, please.")
    ask(page, "Please repeat: zebra")
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
    expect(page.locator("main").get_by_role("alert")).to_contain_text("does not let this page store data")
    expect(page.locator("#chats")).to_contain_text("does not let this page store chats")

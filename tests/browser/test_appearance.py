"""The looks of the web page: accessibility, width, keyboard, theme."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.chat_section import ask, open_chat
from tests.server.process import ServerProcess


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_views_have_no_violation_of_accessibility(
    browser: Browser, server: ServerProcess, scheme: str
) -> None:
    context = browser.new_context(
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    tab = context.new_page()
    # All other rules see the same in both.
    rules = None if scheme == "light" else ["color-contrast"]
    open_chat(tab, server)
    found = violations(tab, rules)
    ask(tab, "Hello!")
    tab.get_by_role("button", name="Try again").click()
    expect(tab.locator(".branches")).to_have_text("2/2")
    tab.locator(".thinking summary").click()
    tab.get_by_role("button", name="Options", exact=True).click()
    tab.locator("#model").click()
    found += violations(tab, rules)
    tab.keyboard.press("Escape")
    for section in ("Models", "Requests", "Cache"):
        tab.get_by_role("link", name=section).click()
        expect(tab.get_by_role("table").first).to_be_visible()
        found += violations(tab, rules)
    context.close()
    assert found == []


def violations(tab: Page, rules: list[str] | None) -> list[str]:
    """Return what violates these rules of axe-core (None: all), with the elements."""
    found = Axe().run(tab, options={"runOnly": rules} if rules else {}).response["violations"]
    return [f"{each['id']}: {node['html']}" for each in found for node in each["nodes"]]


def test_chosen_theme_is_kept(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("menuitemradio", name="Dark").click()
    page.reload()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


def test_nothing_is_wider_than_a_phone_nor_cut_off(browser: Browser, server: ServerProcess) -> None:
    context = browser.new_context(viewport={"width": 320, "height": 640})
    tab = context.new_page()
    tab.goto(f"{server.url}/#models")
    expect(tab.get_by_role("button", name="Unload")).to_be_visible()
    is_cut_off = "[...document.querySelectorAll('.scroll')].map(node => node.scrollWidth > node.clientWidth)"
    assert not any(tab.evaluate(is_cut_off))
    open_chat(tab, server)
    expect(tab.get_by_role("heading", name="What can I help with?")).to_be_in_viewport(ratio=1)
    ask(tab, "Hello!")
    widths = [tab.evaluate("document.documentElement.scrollWidth")]
    for section in ("Models", "Requests", "Cache"):
        tab.get_by_role("button", name="Sidebar").click()
        tab.get_by_role("link", name=section).click()
        expect(tab.get_by_role("table").first).to_be_visible()
        widths.append(tab.evaluate("document.documentElement.scrollWidth"))
    context.close()
    assert widths == [320] * 4


def test_page_works_by_keyboard_alone(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    page.keyboard.type("Hello!")
    page.keyboard.press("Enter")
    expect(page.locator(".assistant")).to_contain_text("Hello! How can I help you?")
    expect(page.get_by_label("Message")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Attach file")).to_be_focused()
    for _ in range(40):
        page.keyboard.press("Shift+Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == "Cache":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Cached conversations")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_link_past_the_navigation_stays_in_its_section(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.url}/#requests")
    expect(page.get_by_role("heading", name="Open and recent")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.get_by_role("heading", name="Open and recent")).to_be_visible()


def test_page_without_javascript_names_other_ways(browser: Browser, server: ServerProcess) -> None:
    context: BrowserContext = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"{server.url}/")
    expect(tab.locator("body")).to_contain_text("allow it for this address and reload", use_inner_text=True)
    expect(tab.locator("body")).to_contain_text("mlxctl chat", use_inner_text=True)
    expect(tab.get_by_role("link")).to_have_count(0)
    context.close()

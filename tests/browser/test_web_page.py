"""The web page in a real browser.

Chat, models, requests, cache, keys, contrast, keyboard.
"""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.process import ServerProcess, serving

# WCAG relative luminance and contrast of each text against the nearest opaque background.
_LOWEST_CONTRAST = """() => {
  const parse = (color) => (color.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const ratios = [...document.querySelectorAll("body *")]
    .filter((node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()))
    .filter((node) => node.checkVisibility() && !node.disabled)
    .map((node) => {
      const pair = [light(parse(getComputedStyle(node).color)), light(behind(node))].sort((a, b) => b - a);
      return (pair[0] + 0.05) / (pair[1] + 0.05);
    });
  return Math.min(...ratios);
}"""


def open_chat(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.url}/")
    expect(page.locator("#model option")).to_have_text(["mlxctl-demo"])


def ask(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.keyboard.press("Enter")
    expect(page.locator(".assistant").last).to_contain_text("first token")


def test_an_answer_streams_with_its_thinking_and_token_counts(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    ask(page, "Hello!")
    answer = page.locator(".assistant").last
    expect(answer).to_contain_text("Hello! How can I help you?")
    expect(answer).to_contain_text("10 prompt tokens")
    answer.get_by_text("Thinking").click()
    expect(answer).to_contain_text("The user greets me.")


def test_markup_in_a_message_stays_text(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    ask(page, "<img src=x onerror=alert(1)> <script>alert(2)</script>")
    expect(page.locator(".user").last).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator(".transcript img, .transcript script").count() == 0


def test_the_conversation_survives_a_change_of_the_section(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    ask(page, "Hello!")
    page.get_by_role("link", name="Requests").click()
    expect(page.get_by_role("table")).to_contain_text("finished")
    page.get_by_role("link", name="Chat").click()
    expect(page.locator(".assistant")).to_contain_text("Hello! How can I help you?")


def test_models_and_cache_show_what_the_server_has(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    ask(page, "Hello!")
    page.get_by_role("link", name="Models").click()
    expect(page.get_by_role("table").first).to_contain_text("mlxctl-demo")
    page.get_by_role("link", name="Cache").click()
    expect(page.locator(".tree").first).to_contain_text("Hello!")
    expect(page.get_by_role("table")).to_contain_text("mlxctl-demo")


def test_a_server_with_keys_asks_for_one(page: Page) -> None:
    with serving(None, "--api-key", "web-page-key") as server:
        page.goto(f"{server.url}/")
        page.get_by_label("Key", exact=True).fill("web-page-key")
        page.get_by_role("button", name="Use key").click()
        expect(page.locator("#model option")).to_have_text(["mlxctl-demo"])
        ask(page, "Hello!")
        expect(page.locator(".assistant")).to_contain_text("Hello! How can I help you?")


def test_a_server_that_ends_is_named(page: Page) -> None:
    with serving(None) as server:
        page.goto(f"{server.url}/")
        expect(page.locator("#status")).to_contain_text("ready")
    page.get_by_role("link", name="Models").click()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(browser: Browser, server: ServerProcess, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme)  # type: ignore[arg-type]
    tab = context.new_page()
    open_chat(tab, server)
    ask(tab, "Hello!")
    lowest = [tab.evaluate(_LOWEST_CONTRAST)]
    for section in ("Models", "Requests", "Cache"):
        tab.get_by_role("link", name=section).click()
        expect(tab.get_by_role("table").first).to_be_visible()
        lowest.append(tab.evaluate(_LOWEST_CONTRAST))
    context.close()
    assert min(lowest) >= 4.5


def test_the_page_works_by_keyboard_alone(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    page.keyboard.type("Hello!")
    page.keyboard.press("Enter")
    expect(page.locator(".assistant")).to_contain_text("Hello! How can I help you?")
    page.keyboard.press("Tab")
    focused = page.evaluate("() => document.activeElement.textContent")
    assert focused == "Attach image"

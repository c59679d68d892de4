"""The looks of the web page: pictures, contrast, width, keyboard."""

from pathlib import Path

import pytest
from PIL import Image, ImageChops, ImageStat
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.chat_section import ask, open_chat
from tests.server.process import ServerProcess

PICTURES = Path(__file__).parents[2] / "snapshots" / "browser"
SIZE = (1000, 700)
# Both pictures are compared in blocks of this many pixels: fonts differ between machines, layout does not.
_BLOCK = 25
# Other fonts differ by 0.9 at most, an input field at another place by 2.
_HIGHEST_DIFFERENCE = 1.5

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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_sections_look_as_reviewed_with_enough_contrast(
    browser: Browser, server: ServerProcess, scheme: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    context = browser.new_context(
        color_scheme=scheme,  # type: ignore[arg-type]
        viewport={"width": SIZE[0], "height": SIZE[1]},
    )
    tab = context.new_page()
    open_chat(tab, server)
    ask(tab, "Hello!")
    tab.get_by_text("Thinking", exact=True).click()
    found: dict[str, tuple[float, float]] = {}
    for section in ("Chat", "Models"):
        tab.get_by_role("link", name=section).click()
        expect(tab.locator("main h2, main .assistant").first).to_be_visible()
        if section == "Models":
            expect(tab.get_by_role("table")).to_have_count(2)
        picture = tmp_path / f"{section.lower()}-{scheme}.png"
        tab.screenshot(path=picture, animations="disabled", caret="hide")
        found[section] = difference(picture, request), tab.evaluate(_LOWEST_CONTRAST)
    for section in ("Requests", "Cache"):
        tab.get_by_role("link", name=section).click()
        expect(tab.get_by_role("table").first).to_be_visible()
        found[section] = 0.0, tab.evaluate(_LOWEST_CONTRAST)
    context.close()
    assert {section: contrast for section, (_, contrast) in found.items() if contrast < 4.5} == {}
    assert {section: d for section, (d, _) in found.items() if d > _HIGHEST_DIFFERENCE} == {}


def test_nothing_is_wider_than_a_phone(browser: Browser, server: ServerProcess) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 640})
    tab = context.new_page()
    open_chat(tab, server)
    ask(tab, "Hello!")
    widths = [tab.evaluate("document.documentElement.scrollWidth")]
    for section in ("Models", "Requests", "Cache"):
        tab.get_by_role("link", name=section).click()
        expect(tab.get_by_role("table").first).to_be_visible()
        widths.append(tab.evaluate("document.documentElement.scrollWidth"))
    context.close()
    assert widths == [360] * 4


def test_every_cell_of_a_table_is_visible_on_a_phone(browser: Browser, server: ServerProcess) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 640})
    tab = context.new_page()
    tab.goto(f"{server.url}/#models")
    expect(tab.get_by_role("button", name="Unload")).to_be_visible()
    is_cut_off = "[...document.querySelectorAll('.scroll')].map(node => node.scrollWidth > node.clientWidth)"
    assert not any(tab.evaluate(is_cut_off))
    context.close()


def test_page_works_by_keyboard_alone(page: Page, server: ServerProcess) -> None:
    open_chat(page, server)
    page.keyboard.type("Hello!")
    page.keyboard.press("Enter")
    expect(page.locator(".assistant")).to_contain_text("Hello! How can I help you?")
    expect(page.get_by_label("Message")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Attach image")).to_be_focused()
    for _ in range(20):
        page.keyboard.press("Shift+Tab")
        if page.evaluate("document.activeElement.textContent") == "Cache":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Cached conversations")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_link_past_the_navigation_stays_in_its_section(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.url}/#requests")
    expect(page.get_by_role("heading", name="Load")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.get_by_role("heading", name="Load")).to_be_visible()


def test_page_without_javascript_names_other_ways(browser: Browser, server: ServerProcess) -> None:
    context: BrowserContext = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"{server.url}/")
    expect(tab.locator("body")).to_contain_text("allow it for this address and reload", use_inner_text=True)
    expect(tab.locator("body")).to_contain_text("mlxctl chat", use_inner_text=True)
    expect(tab.get_by_role("link")).to_have_count(0)
    context.close()


def difference(picture: Path, request: pytest.FixtureRequest) -> float:
    """Return the mean difference per block to the reviewed picture, of 255.

    `--snapshot-update` makes the picture the reviewed one.
    """
    reviewed = PICTURES / picture.name
    if request.config.getoption("update_snapshots"):
        PICTURES.mkdir(parents=True, exist_ok=True)
        Image.open(picture).convert("RGB").quantize(64).save(reviewed, optimize=True)
    blocks = (SIZE[0] // _BLOCK, SIZE[1] // _BLOCK)
    seen, wanted = (
        Image.open(path).convert("RGB").resize(blocks, Image.Resampling.BOX) for path in (picture, reviewed)
    )
    return max(ImageStat.Stat(ImageChops.difference(seen, wanted)).mean)

"""WCAG contrast of all text cells, in every theme and with NO_COLOR."""

import re
from collections.abc import Awaitable, Callable, Collection, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color_triplet import ColorTriplet
from rich.style import Style

from mlxctl.chat.contrast import MIN_CONTRAST, contrast, readable, shown_color
from mlxctl.ir import TextDelta, ThinkingDelta
from mlxctl.ir.errors import ConnectionLost, InvalidRequest

from .screen_driver import Screen, drive
from .scripted_backend import ScriptedBackend, call, end, text
from .test_messages import three_turns

THEMES = ("dracula", "textual-light", "textual-dark")
ANSWER = """# Heading

Use **bold**, *emphasis*, `inline <code>` and [a link](https://a.b/c).

## Second

1. one
   - two

> A quote.

```python
import os

@decorator
class Parser(Base):
    \"\"\"Docs.\"\"\"
    def run(self, text: str = "x") -> int:
        return len(text) + 1.5  # comment
```

```diff
- removed
+ added
```

| Name | Value |
|------|------:|
| alpha | 1 |

---

### Third
"""


def texts(screen: Screen) -> Iterator[tuple[str, Style]]:
    """Yield text and style of cells with visible characters."""
    for strip in screen.app.screen._compositor.render_strips():
        for words, style, _ in strip:
            if re.search(r"[^\s\u2580-\u259f]", words):
                assert style is not None, words
                yield words, style


def unreadable(screen: Screen, *, has_few_colors: bool = False) -> list[str]:
    """Return texts with insufficient contrast, with their colors."""
    found = []
    for words, style in texts(screen):
        color, background = (
            color and color.triplet and shown_color(color.triplet, has_few_colors=has_few_colors)
            for color in (style.color, style.bgcolor)
        )
        if color is None or background is None or contrast(color, background) < MIN_CONTRAST or style.dim:
            found.append(f"{words!r} {color} on {background}")
    return found


def backend() -> ScriptedBackend:
    """Return a backend that shows every kind of content."""
    thought = [ThinkingDelta(text="I should compute."), *call("calculator", '{"expression": "6*"}')]
    failing = [TextDelta(text="Half"), ConnectionLost("it went away")]
    return ScriptedBackend(
        thought, [TextDelta(text=ANSWER), end()], failing, [InvalidRequest("too long")], text("Fine.")
    )


def test_contrast_matches_wcag() -> None:
    assert contrast(ColorTriplet(0, 0, 0), ColorTriplet(255, 255, 255)) == pytest.approx(21)
    assert contrast(ColorTriplet(119, 119, 119), ColorTriplet(255, 255, 255)) == pytest.approx(
        4.478, abs=0.001
    )


COLORS = st.builds(ColorTriplet, *[st.integers(0, 255)] * 3)


@given(COLORS, COLORS)
def test_any_color_becomes_readable_on_any_background(color: ColorTriplet, background: ColorTriplet) -> None:
    assert contrast(readable(color, background), background) >= MIN_CONTRAST


@given(COLORS, COLORS)
def test_any_color_becomes_readable_with_256_colors(color: ColorTriplet, background: ColorTriplet) -> None:
    shown = [
        shown_color(each, has_few_colors=True)
        for each in (readable(color, background, has_few_colors=True), background)
    ]
    assert contrast(*shown) >= MIN_CONTRAST


DIALOGS = {
    "f1": "Help (Esc",
    "f2": "Apply",
    "f3": "not saved",
    "f4": "has no weights",
    "f5": "tok/s",
    "f8": "Attach",
    "ctrl+p": "/model",
    "ctrl+f": "Find in",
    "ctrl+c": "again to quit",
}


async def look_at_everything(
    screen: Screen, check: Callable[[str], Awaitable[None]], keys: Collection[str] = DIALOGS
) -> None:
    """Show every kind of content and these dialogs, and check each."""
    await screen.ask("q")
    assert "# comment" in await screen.wait_for("Third")
    await check("answer")
    await screen.ask("m")
    await screen.wait_for("it went away")
    await screen.ask("x")
    await screen.wait_for("back in the input")
    await check("errors")
    await screen.press("backspace", "ctrl+n")
    for key in keys:
        await screen.press(key)
        await screen.wait_for(DIALOGS[key])
        await check(key)
        await screen.press("escape")
        await screen.wait_for("Ask something" if key != "ctrl+f" else "ready")


def test_text_contrast_in_dark_and_light_themes() -> None:
    async def interact(screen: Screen) -> None:
        async def check(place: str) -> None:
            # Dialogs share their widgets, so one dark and one light theme suffice.
            for theme in THEMES if place == "answer" else THEMES[-2:]:
                screen.app.theme = theme
                await screen.settle()
                assert unreadable(screen) == [], (place, theme)

        await look_at_everything(screen, check)

    drive(backend(), interact, size=(100, 70), uses_tools=True)


def test_text_contrast_of_the_approval_of_a_tool_call() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("is ready")
        await screen.ask("q")
        await screen.wait_for("Always run it")
        for theme in THEMES[-2:]:
            screen.app.theme = theme
            await screen.settle()
            assert unreadable(screen) == [], theme

    drive(ScriptedBackend(call("list_directory", "{}")), interact, uses_tools=True)


def test_text_contrast_of_a_selected_message_and_the_command_list() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("Gamma.")
        for keys, themes in ((["f7", "up"], THEMES), (["escape", "/"], THEMES[-2:])):
            await screen.press(*keys)
            for theme in themes:
                screen.app.theme = theme
                await screen.settle()
                assert unreadable(screen) == [], theme

    drive(ScriptedBackend(), interact, conversation=three_turns())


def test_text_contrast_in_a_terminal_of_256_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLORTERM")
    monkeypatch.setenv("TERM", "xterm-256color")

    async def interact(screen: Screen) -> None:
        await screen.ask("q")
        await screen.wait_for("Third")
        for theme in ("catppuccin-frappe", "textual-light"):
            screen.app.theme = theme
            await screen.settle()
            assert unreadable(screen, has_few_colors=True) == [], theme

    drive(ScriptedBackend([TextDelta(text=ANSWER), end()]), interact, size=(100, 70))


def test_text_contrast_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def interact(screen: Screen) -> None:
        async def check(place: str) -> None:
            await screen.settle()
            assert unreadable(screen) == [], place
            assert all(color is None or len(set(color)) == 1 for color in colors(screen)), place

        # One filter removes all colors, so three kinds of dialogs suffice.
        await look_at_everything(screen, check, keys=("f2", "f5", "ctrl+p"))

    drive(backend(), interact, size=(100, 70), uses_tools=True)


def colors(screen: Screen) -> Iterator[ColorTriplet | None]:
    """Yield foreground and background colors of all text."""
    for _, style in texts(screen):
        yield from (color.triplet for color in (style.color, style.bgcolor) if color is not None)


def test_fields_of_the_settings_differ_from_their_dialog_in_every_theme() -> None:
    async def interact(screen: Screen) -> None:
        await screen.press("f2")
        await screen.wait_for("Apply")
        for theme in THEMES:
            screen.app.theme = theme
            await screen.settle()
            backgrounds = {words.strip(): style.bgcolor for words, style in texts(screen)}
            assert backgrounds["default"] != backgrounds["Temperature"], theme
            assert backgrounds["Model default"] != backgrounds["Temperature"], theme

    drive(backend(), interact)

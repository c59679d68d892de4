"""The chat as images, including colors."""

import re

import pytest
from snapshot_location import TopLevelDirectory
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from mlxctl.ir import TextDelta, ThinkingDelta

from .screen_driver import Screen, drive, mask_times_in
from .scripted_backend import ScriptedBackend, call, end

ANSWER = """The sum is **42**. In Python:

```python
def multiply(a: int, b: int) -> int:
    return a * b
```

1. six times seven
2. forty-two
"""


class SvgSnapshots(TopLevelDirectory, SingleFileSnapshotExtension):
    """One SVG file per snapshot."""

    _write_mode = WriteMode.TEXT
    file_extension = "svg"


@pytest.fixture
def image(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(SvgSnapshots)


def screenshot(screen: Screen) -> str:
    """Return the screen as SVG with times and ids masked."""
    svg = screen.app.export_screenshot(title=screen.app.TITLE, simplify=True)
    return merge_backgrounds(
        re.sub(r"(<text [^>]*>)(.*?)</text>", mask_times, re.sub(r"terminal-\d+", "terminal", svg))
    )


def merge_backgrounds(svg: str) -> str:
    """Return the SVG with adjacent backgrounds of one color merged.

    Their boundaries depend on the length of numbers.
    """
    first = r'<rect fill="(#\w+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"([^>]*)/>'
    pair = rf'{first}<rect fill="\1" x="[\d.]+" y="\3" width="([\d.]+)"\5/>'
    while svg != (shorter := re.sub(pair, one_background, svg)):
        svg = shorter
    return svg


def one_background(pair: re.Match[str]) -> str:
    color, x, y, width, rest, further = pair.groups()
    return f'<rect fill="{color}" x="{x}" y="{y}" width="{float(width) + float(further):.1f}"{rest}/>'


def mask_times(element: re.Match[str]) -> str:
    head, words = element[1], element[2].replace("&#160;", " ")
    if mask_times_in(words) == words:
        return element[0]
    fitting = re.sub(r' textLength="[\d.]+"', "", head)
    return f"{fitting}{mask_times_in(words).rstrip().replace(' ', '&#160;')}</text>"


def scripted() -> ScriptedBackend:
    thinking = [ThinkingDelta(text="I should compute."), *call("calculator", '{"expression": "6*7"}')]
    return ScriptedBackend(thinking, [TextDelta(text=ANSWER), end()])


def test_chat_image(image: SnapshotAssertion) -> None:
    async def interact(screen: Screen) -> None:
        await screen.ask("How much is 6*7?")
        await screen.wait_for("context 105")
        await screen.settle()
        assert screenshot(screen) == image

    drive(scripted(), interact, size=(100, 30), uses_tools=True)


def test_settings_image(image: SnapshotAssertion) -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        await screen.press("f2")
        await screen.wait_for("Apply")
        await screen.settle()
        assert screenshot(screen) == image

    drive(ScriptedBackend(), interact, size=(100, 30))

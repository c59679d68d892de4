"""Markdown shows all text of the model."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from textual.content import Content
from textual.theme import BUILTIN_THEMES

from mlxctl.chat.markdown import MarkdownText, Palette
from mlxctl.chat.markdown_segments import Segmenter
from mlxctl.chat.widgets.composer import Composer
from mlxctl.ir import TextDelta, ThinkingDelta

from .screen_driver import Screen, drive
from .scripted_backend import ScriptedBackend, call, end, text

THEME = BUILTIN_THEMES["textual-dark"]
PALETTE = Palette.from_theme(THEME, THEME.to_color_system().generate())


def drawn(source: str, *, width: int = 80) -> str:
    """Return the source drawn as Markdown, without colors."""
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(MarkdownText(source, PALETTE))
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n"))


def letters(shown: str) -> str:
    """Return the text without spaces and drawn decorations."""
    return re.sub(r"[\s▌•─]", "", shown)


LITERAL = [
    "Use the <div> element and List<String> in Java",
    "<b>x</b> <br/> <!-- a comment --> </p> <kbd>Ctrl</kbd> <script>alert(1)</script>",
    "&lt;div&gt; &amp;amp; &nbsp; &#65; AT&T",
    r"\( a word \) and \[not a link\] and \frac{a}{b} \\ C:\_new\*.txt \# \< \` end",
    "It costs $5 and $6, or $7-$8: US$9 = A$10 (was $1,000), $2/month, not 3$ or 4$.",
    "echo $HOME and $PATH or ${a}-${b} for $$ in $USER$ and $x = $y; $1-$2",
    r"$$ \foo{ $$ is open, $$ too",
    "2*3*4 = 24, x**2 + y**2, f(x)*g(x)*h(x), x^{*} + y^{*}",
    "call __init__ and __name__ and snake_case_name",
    "<https://a.b/c?d=e&f=g> https://h.i/j <std::string> <me@example.org>",
    "a[i](x) and Map[K](v) and f[0][1](2) and [1]: no reference",
    "[note]: https://a.b 'title'",
    "vector<pair<int, int>> v; a < b > c; if (a<b && b>c)",
    "<think>\n\n<p>\n*\n</p>",
    "Title\n===\nlast words \\\nof a line",
    "#hashtag #include <stdio.h>",
    "3) three\n1) one",
    "+ added\n+ more",
    "[bold]no markup[/bold] [/] [@click=app.quit]x[/]",
]


@pytest.mark.parametrize("source", LITERAL)
def test_text_that_looks_like_markup_is_shown(source: str) -> None:
    assert letters(drawn(source)) == letters(source)


MATH_END = re.compile(r"\\[)\]]")
PIECES = st.sampled_from(
    [
        *"<>&\\(){};,=+/\"':?!%[] \n",
        *(
            "<div>",
            "</div>",
            "<T>",
            "List<String>",
            "<br/>",
            "<!--",
            "-->",
            "<a href='x'>",
            "<https://a.b>",
            "<x:y>",
            "<a@b.c>",
        ),
        *(
            "<?php",
            "?>",
            "<![CDATA[",
            "]]>",
            "&lt;",
            "&amp;",
            "&#x41;",
            "\\(",
            "\\[",
            "\\{",
            "\\n",
            "\\\\",
        ),
        *("word", "x", "42", "é", "中", "\n\n"),
    ]
)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(PIECES, max_size=40).map("".join).filter(lambda text: not MATH_END.search(text)),
    st.integers(20, 100),
)
def test_brackets_entities_and_backslashes_are_all_shown(source: str, width: int) -> None:
    # A `+` list mark and a `=` line below text stay visible.
    shown = letters(drawn(source, width=width))
    rest = iter(shown)
    assert all(character in rest for character in letters(re.sub(r"(?m)^[\s>]+", "", source)))


MARKED = st.sampled_from(
    [
        *"*_`~#->|[]()! \n",
        *(
            "\n\n",
            "**",
            "```",
            "~~",
            "| a | b |\n|---|---|\n",
            "- ",
            "1. ",
            "> ",
            "    ",
            "word",
            "x1",
            "7",
            "---\n",
            "](a.b)",
        ),
    ]
)


@settings(max_examples=120, deadline=None)
@given(st.lists(MARKED, max_size=60).map("".join))
def test_formatting_loses_no_letter_or_digit(source: str) -> None:
    shown = iter(re.sub(r"[\W_]", "", drawn(source)))
    assert all(character in shown for character in re.sub(r"[\W_]", "", source))


DEEP = [
    ">" * 500,
    "+ " * 400,
    "[" * 3000,
    "*a " * 3000,
    "<" * 5000,
    "[a](b.c" * 1000,
    "`" * 3000 + " ",
    "\\" * 5000,
    "**x " * 2000,
]


@pytest.mark.parametrize("prefix", DEEP)
def test_too_deep_nesting_is_shown_unformatted(prefix: str) -> None:
    assert "deep" in drawn(f"{prefix} deep")


def test_surplus_table_cell_is_shown() -> None:
    assert "three" in drawn("| a | b |\n|---|---|\n| one | two | three |\n")


def test_link_shows_its_target_once() -> None:
    assert (
        drawn("see [the docs](https://a.b/c) and [https://d.e](https://d.e)")
        == "see the docs (https://a.b/c) and https://d.e"
    )


def test_lists_and_code_are_formatted() -> None:
    shown = drawn("1. one\n2. two\n   - sub\n\n```python\nx = 1\n```\n", width=20)
    assert shown == " 1. one\n 2. two\n     • sub\n\n python\n x = 1"


def test_controls_in_drawn_text_never_reach_the_terminal() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        screen.app.screen.notify("from a \x1b[31mserver\u202e", markup=False)
        await screen.wait_for("from a ␛[31mserver\\u202e")
        composer = screen.app.screen.query_one(Composer)
        composer.set_text("pasted\x1b[31m\u202e")
        composer.border_subtitle = Content("hint\x1b[31m")
        assert not set("\x1b\u202e") & set(await screen.wait_for("hint[31m"))

    drive(ScriptedBackend(), interact)


def test_split_code_block_has_one_language_label() -> None:
    pieces = Segmenter().feed("```python\n" + "x = 1\n" * 400 + "```\n")
    parts = [MarkdownText(piece.text, PALETTE, continues_code=piece.cuts_block) for piece in pieces]
    console = Console(width=40, color_system=None)
    with console.capture() as capture:
        console.print(*parts)
    assert len(parts) > 1
    assert capture.get().count("python") == 1


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_html_is_shown_for_any_chunk_size(size: int) -> None:
    source = "Use <b>x</b> and `List<T>` in\n\n- <li>one</li>\n"
    pieces = [source[place : place + size] for place in range(0, len(source), size)]
    thought = ThinkingDelta(text="Maybe <think about=it> [red]this[/red].")
    tool = call("<tool>[x]", '{"a": "<b>[/]"}')
    backend = ScriptedBackend([thought, *tool], [*(TextDelta(text=piece) for piece in pieces), end()])

    async def interact(screen: Screen) -> None:
        await screen.ask("What is <i>?")
        seen = await screen.wait_for("• <li>one</li>")
        assert "Use <b>x</b> and List<T> in" in seen
        assert "→ <tool>[x]({" in seen
        assert '"<b>[/]"' in seen
        assert "What is <i>?" in seen
        await screen.press("shift+tab", "enter")
        await screen.wait_for("Maybe <think about=it> [red]this[/red].")

    drive(backend, interact, size=(100, 40), uses_tools=True)


def test_tool_call_with_markup_can_be_confirmed() -> None:
    async def interact(screen: Screen) -> None:
        await screen.ask("Go")
        await screen.wait_for("Tool call: [bold]x[/]<i>")
        await screen.press("escape")
        await screen.wait_for("Done")

    backend = ScriptedBackend(call("[bold]x[/]<i>", '{"a": "[/]<b>"}'), text("Done"))
    drive(backend, interact, uses_tools=True, asks_before_tools=True)

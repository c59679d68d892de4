"""Parser for the Markdown that language models write.

CommonMark with tables and strikethrough, except where CommonMark would delete or merge text that a model
meant literally:

- HTML, character entities, autolinks and reference definitions are text: `List<String>`, `&amp;`,
`<https://a.b>`.

- A backslash stays visible and the next character is literal: `\\( a \\)`, `C:\\_new`.

- `*` inside a word or an expression and `__` are text: `2*3*4`, `x**2`, `__init__`.

- `[text](target)` is a link only when the target looks like a URL or a path: `array[i](x)` is not.

- A line end is a line break; a line of dashes below a paragraph is a rule, not a heading.

Math is shown in Unicode, and the items of a task list with a box.

Pure.
"""

import re
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt
from markdown_it.rules_inline.state_inline import Delimiter, StateInline
from markdown_it.token import Token

from mlxctl.chat.markdown.math_rules import add_math, draw_math

_DISABLED = ["html_block", "html_inline", "entity", "autolink", "reference", "lheading", "image"]
# Deeper nesting is shown without formatting.
_MAX_NESTING = 50
_ESCAPABLE = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_LINK = re.compile(
    r"\[([^\[\]\n]{1,500})\]"
    r'\(([^\s()]{1,2000}(?:\([^\s()]{0,200}\)[^\s()]{0,200}){0,5}(?: +"[^"\n]{0,500}")?)\)'
)
_TARGET_MARKS = frozenset(":/#.")
_HIDDEN = re.compile(r"[\W_]+")
_TASK = re.compile(r"\[([ xX])\](?:\s+|$)")
_BOXES = {" ": "☐", "x": "☑", "X": "☑"}


def parse(source: str) -> list[Token]:
    """Return the tokens of the source.

    When formatting would lose a letter or a digit, the source becomes one unformatted block.
    """
    try:
        tokens = _PARSER.parse(source)
    except RecursionError:
        return [_unformatted(source)]
    if _letters(source) != _letters("".join(_contents(tokens))):
        return [_unformatted(source)]
    for token in _with_children(tokens):
        draw_math(token)
    _draw_boxes(tokens)
    return tokens


def code_blocks(source: str) -> list[str]:
    """Return the text of the fenced code blocks."""
    return [token.content for token in parse(source) if token.type == "fence"]


def _letters(text: str) -> str:
    return _HIDDEN.sub("", text)


def _contents(tokens: Iterable[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("fence", "list_item_open"):
            yield token.info
        if token.children:
            yield from _contents(token.children)
        else:
            yield token.content


def _with_children(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _with_children(token.children or ())


def _draw_boxes(tokens: list[Token]) -> None:
    """Replace `[ ]` at the start of list items by a box.

    It takes the place of a bullet.
    """
    for item, inline in zip(tokens, tokens[2:], strict=False):
        first = inline.children[0] if item.type == "list_item_open" and inline.children else None
        match = _TASK.match(first.content) if first is not None and first.type == "text" else None
        if first is None or match is None:
            continue
        box = _BOXES[match[1]]
        first.content = first.content[match.end() :]
        if item.info:
            first.content = f"{box} {first.content}"
        else:
            item.markup = box


def _unformatted(source: str) -> Token:
    return Token("code_block", "code", 0, content=source, meta={"is_prose": True})


def _escape(state: StateInline, silent: bool) -> bool:
    """Keep the backslash and take the next character literally."""
    if (
        state.src[state.pos] != "\\"
        or state.pos + 1 >= state.posMax
        or state.src[state.pos + 1] not in _ESCAPABLE
    ):
        return False
    if not silent:
        state.pending += state.src[state.pos : state.pos + 2]
    state.pos += 2
    return True


def _emphasis(state: StateInline, silent: bool) -> bool:
    """Parse emphasis as CommonMark, except for operators and dunder names."""
    marker = state.src[state.pos]
    if silent or marker not in "*_":
        return False
    scanned = state.scanDelims(state.pos, marker == "*")
    before = state.src[state.pos - 1] if state.pos else " "
    after = state.src[state.pos + scanned.length] if state.pos + scanned.length < state.posMax else " "
    is_name = marker == "_" and scanned.length > 1
    is_operator = marker == "*" and (_is_operand(before) or after in ")]},;:!?")
    for _ in range(scanned.length):
        state.push("text", "", 0).content = marker
        if not is_name:
            state.delimiters.append(
                Delimiter(
                    marker=ord(marker),
                    length=scanned.length,
                    token=len(state.tokens) - 1,
                    end=-1,
                    open=scanned.can_open and not is_operator,
                    close=scanned.can_close,
                )
            )
    state.pos += scanned.length
    return True


def _is_operand(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character in ")]}")


def _line_end(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] != "\n":
        return False
    if not silent:
        state.push("hardbreak", "br", 0)
    state.pos += 1
    while state.pos < state.posMax and state.src[state.pos] in " \t":
        state.pos += 1
    return True


def _link(state: StateInline, silent: bool) -> bool:
    """Parse `[text](target)` as text with its target in parentheses.

    The target is omitted when it equals the text.
    """
    match = _LINK.match(state.src, state.pos, state.posMax)
    if match is None or not _TARGET_MARKS.intersection(match[2]):
        return False
    if not silent:
        text, target = match.groups()
        end, state.posMax = state.posMax, match.end(1)
        state.pos = match.start(1)
        state.push("link_text_open", "link_text", 1)
        state.md.inline.tokenize(state)
        close = state.push("link_text_close", "link_text", -1)
        state.posMax = end
        if text == target:
            # Not drawn, but counted as source text.
            close.content = target
        else:
            state.push("text", "", 0).content = " ("
            state.push("link_target", "link_target", 0).content = target
            state.push("text", "", 0).content = ")"
    state.pos = match.end()
    return True


def _build() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_NESTING})
    parser.enable(["table", "strikethrough"]).disable(_DISABLED)
    for name, rule in {"newline": _line_end, "escape": _escape, "emphasis": _emphasis, "link": _link}.items():
        parser.inline.ruler.at(name, rule)
    add_math(parser)
    return parser


_PARSER = _build()

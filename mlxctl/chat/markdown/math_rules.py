"""Where Markdown has math: `$$…$$`, `\\[…\\]`, `\\(…\\)` and `$…$`.

The delimiters also stand for prices, shell variables and escaped brackets, which stay text: between them must
be what only math has. Math of several lines has no empty line. Pure.
"""

import re
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.rules_block.state_block import StateBlock
from markdown_it.rules_inline.state_inline import StateInline
from markdown_it.token import Token

from mlxctl.chat.markdown.math import MAX_CHARACTERS, math_text
from mlxctl.chat.markdown.math_symbols import FUNCTIONS

_ENDS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}
_END_OF_LINE = re.compile(r"[.,;:!?]?\s*")
# Words in braces are names such as `v_{total}`.
_BRACES = re.compile(r"\{[^{}]*\}")
_WORD = re.compile(r"[^\W\d_]{2,}")
_NAME = 2
_SCRIPT = re.compile(r"\\[A-Za-z]|\^|_\{")
_OPERATOR = re.compile(r"[=<>+]")
# Pandoc's rule: no space inside, no digit after; also no letter before or after.
_DOLLARS = re.compile(r"\$(?![\s$])([^$\n`]{0,300}?[^$\s\\`])\$(?![\w${(])")


@dataclass(frozen=True, slots=True)
class _Found:
    """Math in a text: its content and the index after its end."""

    content: str
    end: int


def add_math(parser: MarkdownIt) -> None:
    """Let a parser find math."""
    parser.block.ruler.before(
        "fence", "math", _block, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    parser.inline.ruler.before("escape", "math", _inline)


def draw_math(token: Token) -> None:
    """Replace the source of math by its text.

    What cannot be read stays as it was written.
    """
    if token.type == "math_inline":
        token.content = math_text(token.content) or token.meta["written"]
    elif token.type == "math_block":
        shown = math_text(token.content, is_display=True)
        token.content = token.meta["written"] if shown is None else f"{shown}{token.meta['after']}"


def _block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Parse display math that has its lines for itself.

    Until its end has come it is shown as written, so that it changes only once while it is streamed.
    """
    start = state.bMarks[start_line] + state.tShift[start_line]
    opening = state.src[start : start + 2]
    if state.is_code_block(start_line) or opening not in ("$$", "\\["):
        return False
    lines: list[str] = []
    for line in range(start_line, end_line):
        first, last = state.bMarks[line] + state.tShift[line], state.eMarks[line]
        if first >= last or (line > start_line and state.sCount[line] < state.blkIndent):
            return False
        lines.append(state.src[first + 2 * (line == start_line) : last])
        content, mark, after = lines[-1].partition(_ENDS[opening])
        if mark:
            lines[-1] = content
            source = "\n".join(lines)
            if not _END_OF_LINE.fullmatch(after) or not _is_math(source):
                return False
            return silent or _push_block(state, start_line, line, source, after.strip())
    is_open = bool(lines) and end_line == state.lineMax and sum(map(len, lines)) <= MAX_CHARACTERS
    if is_open and not silent:
        _push_block(state, start_line, end_line - 1, "", "")
    return is_open and (len(lines) > 1 or not lines[0].strip())


def _push_block(state: StateBlock, first: int, last: int, source: str, after: str) -> bool:
    written = state.getLines(first, last + 1, state.blkIndent, False)
    # Source that is still incomplete is prose.
    token = state.push("math_block" if source else "code_block", "math_block", 0)
    token.content = source or written
    token.meta = {"written": written, "after": after, "is_prose": True}
    token.map = [first, last + 1]
    state.line = last + 1
    return True


def _inline(state: StateInline, silent: bool) -> bool:
    """Parse math within a line, or within the lines of a paragraph."""
    found = _find(state.src[: state.posMax], state.pos)
    if found is None:
        return False
    if not silent:
        token = state.push("math_inline", "math", 0)
        token.content = found.content
        token.meta = {"written": state.src[state.pos : found.end]}
    state.pos = found.end
    return True


def _find(text: str, start: int) -> _Found | None:
    """Return the math that starts at an index."""
    if text[start] not in "$\\":
        return None
    opening = text[start : start + 2]
    if opening in _ENDS:
        end = text.find(_ENDS[opening], start + 2, start + MAX_CHARACTERS)
        content = text[start + 2 : end]
        return _Found(content, end + 2) if end > 0 and _is_math(content) else None
    match = _DOLLARS.match(text, start)
    is_after_word = start > 0 and (text[start - 1].isalnum() or text[start - 1] in "$\\})]+?")
    if match is None or is_after_word or not _is_math(match[1], is_strict=True):
        return None
    return _Found(match[1], match.end())


def _is_math(content: str, *, is_strict: bool = False) -> bool:
    """Whether a text is clearly math.

    It has a command or an operator, or only short names and numbers. With `is_strict`, for dollars, words
    make it a text with prices or variables, unless it has a command or a script.
    """
    content = content.strip()
    if not any(character.isalnum() for character in content):
        return False
    if _SCRIPT.search(content):
        return True
    words = [word for word in _WORD.findall(_BRACES.sub(" ", content)) if word not in FUNCTIONS]
    if is_strict and content[0].isdigit():
        return not words
    # `ABC` is a triangle, but `$ABC$` a variable.
    is_named = all(len(word) <= _NAME + (word.isupper() and not is_strict) for word in words)
    return is_named if is_strict else is_named or _OPERATOR.search(content) is not None

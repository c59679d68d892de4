"""Texts to read aloud: Markdown as words, and texts in parts. Pure."""

import re

MAX_PART_CHARS = 4096
"""What `/v1/audio/speech` takes at once."""

# Where a text that is too long is cut, the best first: after a paragraph, a line, a sentence, a word.
_CUTS = ("\n\n", "\n", r"[.!?;:。！？](?=\s)|[。！？]", r"\s")


def split_text(text: str) -> list[str]:
    """Return the text in parts that a request takes."""
    parts = []
    rest = text.strip()
    while len(rest) > MAX_PART_CHARS:
        end = _cut_position(rest[:MAX_PART_CHARS])
        parts.append(rest[:end].strip())
        rest = rest[end:].strip()
    return [part for part in (*parts, rest) if part]


def readable(markdown: str) -> str:
    """Return the words of a Markdown text, without code blocks and marks."""
    # PERF: imported after the first frame.
    from markdown_it import MarkdownIt

    lines = []
    for token in MarkdownIt().enable("table").parse(markdown):
        children = token.children or () if token.type == "inline" else ()
        words = "".join(
            " " if child.type.endswith("break") else child.content
            for child in children
            if child.type in ("text", "code_inline", "softbreak", "hardbreak")
        )
        lines.append(words)
    return "\n".join(line for line in lines if line.strip())


def _cut_position(text: str) -> int:
    """Return where to end the first part: behind the last good place."""
    for pattern in _CUTS:
        found = [match.end() for match in re.finditer(pattern, text)]
        if found and found[-1] > len(text) // 2:
            return found[-1]
    return len(text)

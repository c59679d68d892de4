"""One pattern of many fixed texts."""

import re
from collections.abc import Iterable

_Tree = dict[str, "_Tree"]
_END = ""


def literal_pattern(texts: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of the longest of the texts at a place.

    PERF: common beginnings are looked at once; a plain alternation tries each text in turn, and a vocabulary
    has up to 6,000. Without texts it never matches.
    """
    tree: _Tree = {}
    for text in texts:
        node = tree
        for char in text:
            node = node.setdefault(char, {})
        node[_END] = {}
    return re.compile(_written(tree) if tree else r"(?!)")


def _written(node: _Tree) -> str:
    """Return the pattern of a node's branches."""
    branches = []
    for char, below in node.items():
        if char == _END:
            continue
        run = char
        while len(below) == 1 and _END not in below:
            (char, below), *_ = below.items()
            run += char
        branches.append(re.escape(run) + _written(below))
    if not branches:
        return ""
    joined = branches[0] if len(branches) == 1 and _END not in node else f"(?:{'|'.join(branches)})"
    return f"{joined}?" if _END in node else joined

"""Tables of options in the documentation: which of them combine."""

from pathlib import Path

_HEADING = "## Which options combine"


def read_option_table(document: Path) -> dict[frozenset[str], str]:
    """Return the entries of a page's table by pair, without empty cells."""
    section = document.read_text(encoding="utf-8").split(_HEADING)[1]
    lines = section.split("\n## ")[0].splitlines()
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines if line[:1] == "|"]
    names = rows[0][1:]
    return {
        frozenset((row[0], name)): word
        for row in rows[2:]
        for name, word in zip(names, row[1:], strict=True)
        if word
    }

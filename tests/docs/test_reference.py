"""The generated documentation matches the code."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_reference_pages_are_up_to_date(tmp_path: Path) -> None:
    # In a child process: help pages depend on the terminal, which pytest replaces.
    program = "import reference_docs, json; print(json.dumps(reference_docs.pages()))"
    command = [sys.executable, "-c", program]
    environment = {"PYTHONPATH": f"{ROOT / 'tools'}:{ROOT}", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    stale = [
        name
        for name, text in json.loads(output).items()
        if (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run: python tools/reference_docs.py"


def test_every_link_to_a_file_resolves() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    ]
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_chat_image_equals_the_snapshot() -> None:
    snapshot = ROOT / "snapshots" / "tui" / "test_svg_screens" / "test_chat_image.svg"
    assert (ROOT / "docs" / "assets" / "chat.svg").read_text(encoding="utf-8") == snapshot.read_text(
        encoding="utf-8"
    )

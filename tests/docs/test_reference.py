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


def test_benchmark_table_has_the_stored_figures() -> None:
    stored = [json.loads(path.read_text()) for path in (ROOT / "bench_results").glob("*.json")]
    figures = {each["name"]: each for document in stored for each in document.get("findings", ())}
    page = (ROOT / "docs" / "benchmarks" / "results.md").read_text(encoding="utf-8")
    table = page.partition("| --- | --- | --- | --- |\n")[2].partition("\n\n")[0]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()]
    assert len(rows) > 50
    for name, values, aim, detail in rows:
        ratio = figures[name]["ratio"]
        numbers = [number.replace(",", "") for number in re.findall(r"[\d,.]*\d", values)]
        for number, key in zip(numbers, ("median", "lowest", "highest"), strict=True):
            assert abs(float(number) - ratio[key]) <= 0.51 * 10 ** -len(number.partition(".")[2]), name
        assert float(aim[2:].replace(",", "")) == figures[name]["bar"], name
        assert detail == figures[name]["detail"], name

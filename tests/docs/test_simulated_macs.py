"""The page of simulated Macs shows stored, reproducible figures."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.simulate import BEGIN, END, LINUX, PAGE, RESULT, bursts, render

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def stored() -> dict[str, list[dict[str, Any]]]:
    figures: dict[str, list[dict[str, Any]]] = json.loads((ROOT / RESULT).read_text())
    return figures


def test_page_shows_the_stored_figures(stored: dict[str, list[dict[str, Any]]]) -> None:
    page = (ROOT / PAGE).read_text()

    assert page[page.index(BEGIN) + len(BEGIN) : page.index(END)].strip() == render(stored)


def test_stored_figures_can_be_made_again(stored: dict[str, list[dict[str, Any]]]) -> None:
    subject = LINUX[0]
    before = [cell for cell in stored["bursts"] if cell["subject"] == subject.name]

    again = list(bursts([subject]))

    assert [cell["load"] for cell in again] == [cell["load"] for cell in before]
    assert [set(cell) for cell in again] == [set(cell) for cell in before]
    # The best within reach follows from the machine alone; the rest changes with the policy.
    for name in ("best_slowest", "best_speed", "best_work"):
        assert [cell[name] for cell in again] == pytest.approx([cell[name] for cell in before], abs=1e-4)

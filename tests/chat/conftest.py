"""What all tests of the terminal's screens share."""

import pytest


@pytest.fixture(autouse=True)
def _all_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw for a terminal that shows every color, wherever the tests run."""
    monkeypatch.setenv("COLORTERM", "truecolor")

"""Ollama's `keep_alive` as seconds."""

import pytest
from msgspec import UNSET

from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.compat.ollama.parse import keep_alive_seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, UNSET),
        (0, 0.0),
        (90, 90.0),
        ("0", 0.0),
        ("90", 90.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("500ms", 0.5),
        ("1.5h", 5400.0),
        (-1, None),
        ("-1m", None),
    ],
)
def test_keep_alive_is_read_as_seconds(value: str | float | None, seconds: object) -> None:
    assert keep_alive_seconds(value) == seconds


@pytest.mark.parametrize("value", ["", "soon", "5 m", "m5", "1h" * 9, "9" * 400])
def test_other_durations_are_refused(value: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        keep_alive_seconds(value)
    assert caught.value.param == "keep_alive"

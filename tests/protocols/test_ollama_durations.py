"""Ollama's `keep_alive` as seconds."""

import pytest

from mlxctl.ir import KeepAlive
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.compat.ollama.parse import keep_alive


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
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
def test_keep_alive_is_read_as_seconds(value: str | float, seconds: float | None) -> None:
    assert keep_alive(value) == KeepAlive(seconds=seconds)


def test_null_keep_alive_sets_nothing() -> None:
    assert keep_alive(None) is None


@pytest.mark.parametrize("value", ["", "soon", "5 m", "m5", "1h" * 9, "9" * 400])
def test_other_durations_are_refused(value: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        keep_alive(value)
    assert caught.value.param == "keep_alive"

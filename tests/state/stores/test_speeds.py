"""Measured speeds belong to a model's files and a machine."""

from pathlib import Path

from mlxctl.state.stores import MeasuredSpeed, SpeedStore


def speed(**changes: object) -> MeasuredSpeed:
    values = {
        "fingerprint": "a" * 64,
        "machine": "Apple M4, 32 GiB",
        "model": "org/tiny",
        "decode_tokens_per_second": 40.0,
        "prompt_tokens_per_second": None,
        "context_tokens": 2048,
        "measured_at": 1000.0,
        "version": "1",
    }
    return MeasuredSpeed(**(values | changes))  # type: ignore[arg-type]


def test_newer_measurement_replaces_the_older_one(tmp_path: Path) -> None:
    store = SpeedStore(tmp_path / "speeds.sqlite")
    assert store.find("a" * 64, "Apple M4, 32 GiB") is None
    store.save(speed())
    store.save(newer := speed(decode_tokens_per_second=50.0, prompt_tokens_per_second=900.0))
    store.close()
    assert SpeedStore(tmp_path / "speeds.sqlite").find("a" * 64, "Apple M4, 32 GiB") == newer


def test_speed_of_another_machine_is_not_used(tmp_path: Path) -> None:
    store = SpeedStore(tmp_path / "speeds.sqlite")
    store.save(speed(machine="Apple M1, 8 GiB"))
    assert store.find("a" * 64, "Apple M4, 32 GiB") is None

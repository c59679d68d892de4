"""`mlxctl chat --list`: the saved chats as text and JSON."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlxctl.cli import app
from mlxctl.state.stores import Session, SessionStore, SessionSummary

SUMMARY = SessionSummary(
    id="ab12", title="A “blue” boat", model="m", started_at=1.5, used_at=2.5, num_messages=2
)


def test_saved_chats_are_listed_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    runner = CliRunner()
    assert json.loads(runner.invoke(app, ["chat", "--list", "--json"]).stdout) == []
    SessionStore(tmp_path / "mlxctl" / "chats.db").save(Session(summary=SUMMARY, text="", body=b"[]"))
    assert json.loads(runner.invoke(app, ["chat", "--list", "--json"]).stdout) == [
        {
            "id": "ab12",
            "title": "A “blue” boat",
            "model": "m",
            "started_at": 1.5,
            "used_at": 2.5,
            "num_messages": 2,
        }
    ]
    assert "--json needs --list" in runner.invoke(app, ["chat", "--json"]).stderr

"""The log of dropped tools."""

import logging
from pathlib import Path

import pytest
from falcon import testing

from mlxctl.server.resources.generation.generation import DroppedToolsLog
from mlxctl.state.settings import ServerSettings

from .conftest import unstarted_app


@pytest.fixture
def client(endless_model: Path) -> testing.TestClient:
    return unstarted_app(endless_model, ServerSettings())


def logged(log: pytest.LogCaptureFixture) -> list[str]:
    at_least = logging.getLevelName(ServerSettings().log_level.upper())
    return [
        record.getMessage()
        for record in log.records
        if record.levelno >= at_least and "dropped from requests" in record.getMessage()
    ]


def test_each_dropped_type_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    left_out = DroppedToolsLog()
    for _ in range(3):
        left_out.warn_once(["web_search", "mcp", "web_search"])
    assert [line.rsplit(": ", 1)[1] for line in logged(caplog)] == ["'web_search'", "'mcp'"]


def test_logged_types_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    left_out = DroppedToolsLog()
    left_out.warn_once(["a\nb" * 10_000, *map(str, range(10_000))])
    lines = logged(caplog)
    assert len(lines) == 64
    assert max(map(len, lines)) < 200
    assert not any("\n" in line for line in lines)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "Hi"}], "tools": [{"type": "web_search"}]},
        ),
        ("/v1/responses", {"input": "Hi", "tools": [{"type": "web_search"}]}),
        (
            "/v1/messages",
            {
                "max_tokens": 1,
                "messages": [{"role": "user", "content": "Hi"}],
                "tools": [{"type": "web_search", "name": "web_search"}],
            },
        ),
    ],
)
def test_every_protocol_logs_dropped_tools(
    client: testing.TestClient, caplog: pytest.LogCaptureFixture, path: str, body: object
) -> None:
    for _ in range(2):
        client.simulate_post(path, json={"model": "tiny", **body})  # type: ignore[dict-item]
    assert len(logged(caplog)) == 1

"""Protocol of a request file, detected by its fields."""

import json
from pathlib import Path
from typing import Any

import pytest

from mlxctl.cli.inspector.request_file import read_request
from mlxctl.ir.errors import InvalidRequest

HELLO = [{"role": "user", "content": "Hello"}]


def written(directory: Path, body: Any) -> Path:
    path = directory / "request.json"
    path.write_text(body if isinstance(body, str) else json.dumps(body))
    return path


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"messages": HELLO}, "/v1/chat/completions"),
        (
            {"messages": HELLO, "tools": [{"type": "function", "function": {"name": "clock"}}]},
            "/v1/chat/completions",
        ),
        ({"messages": HELLO, "system": "Be kind."}, "/v1/messages"),
        ({"messages": HELLO, "tools": [{"name": "clock", "input_schema": {}}]}, "/v1/messages"),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]}]},
            "/v1/messages",
        ),
        ({"input": "Hello"}, "/v1/responses"),
    ],
)
def test_protocol_is_detected_by_fields(tmp_path: Path, fields: dict[str, Any], path: str) -> None:
    assert read_request(written(tmp_path, {"model": "tiny"} | fields)).path == path


def test_one_token_request_changes_only_the_length(tmp_path: Path) -> None:
    request = read_request(written(tmp_path, {"model": "tiny", "messages": HELLO, "stream": True}))
    assert request.with_one_token() == {
        "model": "tiny",
        "messages": HELLO,
        "stream": False,
        "max_completion_tokens": 1,
    }


@pytest.mark.parametrize("body", ["{", "[]", "{}", '{"prompt": "Once"}'])
def test_invalid_request_file_is_rejected(tmp_path: Path, body: str) -> None:
    with pytest.raises(InvalidRequest, match=r"request\.json"):
        read_request(written(tmp_path, body))


def test_missing_request_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="cannot read"):
        read_request(tmp_path / "nothing.json")

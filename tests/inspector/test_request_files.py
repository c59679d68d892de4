"""The protocol of a request in a file is told by its fields."""

import json
from pathlib import Path
from typing import Any

import pytest

from mlxctl.errors import InvalidRequest
from mlxctl.inspector.request_file import read_request

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
def test_the_fields_tell(tmp_path: Path, fields: dict[str, Any], path: str) -> None:
    assert read_request(written(tmp_path, {"model": "tiny"} | fields)).path == path


def test_a_request_for_one_token_is_the_same_but_for_its_length(tmp_path: Path) -> None:
    request = read_request(written(tmp_path, {"model": "tiny", "messages": HELLO, "stream": True}))
    assert request.of_one_token() == {
        "model": "tiny",
        "messages": HELLO,
        "stream": False,
        "max_completion_tokens": 1,
    }


@pytest.mark.parametrize("body", ["{", "[]", "{}", '{"prompt": "Once"}'])
def test_what_is_no_request_is_refused(tmp_path: Path, body: str) -> None:
    with pytest.raises(InvalidRequest, match=r"request\.json"):
        read_request(written(tmp_path, body))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="cannot read"):
        read_request(tmp_path / "nothing.json")

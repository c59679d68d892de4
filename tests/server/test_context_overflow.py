"""Conversations longer than the context are refused or shortened."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .hosted import HostedServer, hosting

TURN = {"role": "user", "content": "very long " * 40}
CONVERSATION = [TURN, {"role": "assistant", "content": "Yes."}, TURN, {"role": "assistant", "content": "No."}]
BODY: dict[str, Any] = {"model": "tiny", "messages": [*CONVERSATION, TURN], "max_tokens": 4}
DROP = {"x-mlxctl-context-overflow": "drop_oldest"}


@pytest.fixture(scope="module")
def short(endless_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    """A server with a context of 1,024 tokens."""
    model = tmp_path_factory.mktemp("models") / "short"
    shutil.copytree(endless_model, model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 1024}))
    with hosting(model) as running:
        yield running


@pytest.mark.parametrize("path", ["chat/completions", "messages"])
def test_overflow_policy_of_body_or_header_drops_oldest_turns(short: HostedServer, path: str) -> None:
    url = f"{short.url}/v1/{path}"
    assert httpx.post(url, json=BODY, timeout=60).status_code == 400
    by_header = httpx.post(url, json=BODY, headers=DROP, timeout=60).json()
    by_body = httpx.post(url, json={**BODY, "context_overflow": "compact"}, timeout=60).json()
    assert by_header["usage"]["dropped_messages"] == by_body["usage"]["dropped_messages"] == 2
    refused = httpx.post(url, json={**BODY, "context_overflow": "error"}, headers=DROP, timeout=60)
    assert refused.status_code == 400


def test_context_edit_clears_old_tool_results_and_reports_it(short: HostedServer) -> None:
    turns: list[dict[str, Any]] = [{"role": "user", "content": "Look it up."}]
    for number in range(3):
        call = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "found " * 30}
        turns += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "tool_uses", "value": 2},
        "keep": {"type": "tool_uses", "value": 1},
    }
    body = {"model": "tiny", "messages": turns, "context_management": {"edits": [edit]}}
    count = httpx.post(f"{short.url}/v1/messages/count_tokens", json=body, timeout=60).json()
    cleared = count["context_management"]["original_input_tokens"] - count["input_tokens"]
    applied = {
        "applied_edits": [{"type": edit["type"], "cleared_tool_uses": 2, "cleared_input_tokens": cleared}]
    }
    whole = httpx.post(f"{short.url}/v1/messages", json={**body, "max_tokens": 4}, timeout=60).json()
    assert cleared > 0
    assert whole["context_management"] == applied
    streamed = httpx.post(
        f"{short.url}/v1/messages", json={**body, "max_tokens": 4, "stream": True}, timeout=60
    )
    events = [json.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: {")]
    (end,) = (event for event in events if event["type"] == "message_delta")
    assert end["context_management"] == applied


def test_unknown_overflow_policy_is_refused_by_name(short: HostedServer) -> None:
    headers = {"x-mlxctl-context-overflow": "shrink"}
    refused = httpx.post(f"{short.url}/v1/chat/completions", json=BODY, headers=headers, timeout=60)
    assert refused.status_code == 400
    assert "error, drop_oldest, compact" in refused.json()["error"]["message"]

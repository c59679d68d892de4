"""Priority by header, on every protocol."""

from pathlib import Path

import pytest

from mlxctl.state.settings import ServerSettings

from .conftest import unstarted_app

MESSAGES = [{"role": "user", "content": "hi"}]
BODIES = {
    "/v1/chat/completions": {"model": "tiny", "messages": MESSAGES},
    "/v1/completions": {"model": "tiny", "prompt": "hi"},
    "/v1/responses": {"model": "tiny", "input": "hi"},
    "/v1/messages": {"model": "tiny", "messages": MESSAGES, "max_tokens": 1},
}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
def test_unknown_priority_class_is_refused_before_anything_starts(
    endless_model: Path, path: str, stream: bool
) -> None:
    client = unstarted_app(endless_model, ServerSettings())

    refused = client.simulate_post(
        path, json=BODIES[path] | {"stream": stream}, headers={"x-mlxctl-priority": "urgent"}
    )

    assert refused.status_code == 400
    assert "interactive, default, background" in refused.json["error"]["message"]

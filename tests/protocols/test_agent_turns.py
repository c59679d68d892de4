"""Agent turns between parsing and history."""

import json
import pickle

from mlxctl.ir import StoredAgent
from mlxctl.protocols import AgentTurnFormatter

AGENT = StoredAgent(
    number=1,
    id="a1",
    model="tiny",
    settings=b"{}",
    created=0.0,
    last_access=0.0,
    revision=0,
    num_messages=1,
    num_bytes=0,
)


def test_turn_body_is_not_held_while_it_waits() -> None:
    formatter = AgentTurnFormatter(agent_id="a1")
    written = json.dumps(
        {"messages": [{"role": "user", "content": "x" * 1_000_000}], "stream": True}
    ).encode()
    num_bytes, streams = formatter.outline(written)
    assert num_bytes > 1_000_000
    assert streams
    assert len(pickle.dumps(vars(formatter))) < 10_000

    asked = formatter.parse_again(written, AGENT, [b'{"role":"user","content":"Hello"}'])
    assert [message.text[:5] for message in asked.messages] == ["Hello", "xxxxx"]
    # The new message is kept for the history, and nothing else.
    assert len(pickle.dumps(vars(formatter))) < 1_100_000

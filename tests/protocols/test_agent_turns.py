"""Agent turns between parsing and history."""

import json
import pickle

from mlxctl.ir import StoredAgent
from mlxctl.protocols.openai.agents.turns import StoredHistory, parse_turn, parse_turn_with

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
    written = json.dumps(
        {"messages": [{"role": "user", "content": "x" * 1_000_000}], "stream": True}
    ).encode()
    waiting, outline = parse_turn(written)
    assert waiting.num_new_bytes > 1_000_000
    assert waiting.stream
    assert len(pickle.dumps((waiting, outline))) < 10_000

    history = StoredHistory(agent=AGENT, messages=[b'{"role":"user","content":"Hello"}'])
    asked, shape = parse_turn_with(written, history)
    assert [message.text[:5] for message in asked.messages] == ["Hello", "xxxxx"]
    # The new message is kept for the history, and nothing else.
    assert len(pickle.dumps(shape)) < 1_100_000

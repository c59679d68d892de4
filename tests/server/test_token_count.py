"""count_tokens agrees with the usage of the message."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import pytest

TOOL: dict[str, Any] = {
    "name": "clock",
    "description": "Tell the time",
    "input_schema": {"type": "object", "properties": {}},
}
ASK: list[Any] = [{"role": "user", "content": "Say something."}]
HISTORY: list[Any] = [
    {
        "role": "user",
        "content": [{"type": "text", "text": "What time is it?", "cache_control": {"type": "ephemeral"}}],
    },
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "clock", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "noon"}]},
]


@pytest.mark.parametrize(
    "body",
    [
        {"messages": ASK},
        {"messages": ASK, "system": "Be brief."},
        {"messages": HISTORY, "tools": [TOOL]},
        {"messages": HISTORY, "tools": [TOOL, {**TOOL, "name": "later", "defer_loading": True}]},
        {"messages": ASK, "tools": [TOOL], "tool_choice": {"type": "any"}},
        {"messages": ASK, "tools": [TOOL], "tool_choice": {"type": "none"}},
        {"messages": ASK, "thinking": {"type": "disabled"}},
    ],
)
def test_count_equals_the_messages_input_tokens(
    anthropic_client: anthropic.Anthropic, body: dict[str, Any]
) -> None:
    counted = anthropic_client.messages.count_tokens(model="tiny", **body)
    usage = anthropic_client.messages.create(model="tiny", max_tokens=1, **body).usage
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    assert counted.input_tokens == usage.input_tokens + cached > 0


def test_long_prompt_is_counted(anthropic_client: anthropic.Anthropic) -> None:
    too_long: list[Any] = [{"role": "user", "content": "very long " * 40_000}]
    assert anthropic_client.messages.count_tokens(model="tiny", messages=too_long).input_tokens > 32_768


def test_twenty_five_counts_at_once(anthropic_client: anthropic.Anthropic) -> None:
    def count(number: int) -> int:
        body: list[Any] = [{"role": "user", "content": "foo" * number}]
        return anthropic_client.beta.messages.count_tokens(model="tiny", messages=body, tools=[]).input_tokens

    with ThreadPoolExecutor(25) as pool:
        counts = list(pool.map(count, range(25)))
    assert counts == sorted(set(counts))


def test_unknown_model_returns_404(anthropic_client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError):
        anthropic_client.messages.count_tokens(model="huge", messages=ASK)

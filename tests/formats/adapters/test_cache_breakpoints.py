"""The number of long-TTL tokens ends at the breakpoint, in every family."""

import json
from typing import Any

import pytest

from mlxctl.formats.adapters import ModelAdapter, create_adapter
from mlxctl.ir import GenerationRequest
from mlxctl.library import read_model
from mlxctl.protocols import PROTOCOLS
from tests import tiny_models

FAMILIES = ["qwen3", "llama3", "gemma3", "lfm2", "mistral"]
TOOLS = [
    {"name": name, "description": f"Tells the {name}.", "input_schema": {"type": "object"}}
    for name in ("clock", "weather")
]


@pytest.fixture(scope="module", params=FAMILIES)
def adapter(request: pytest.FixtureRequest) -> ModelAdapter:
    return create_adapter(read_model(tiny_models.model(request.param)), name=request.param)


def block(text: str, ttl: str | None = None) -> dict[str, Any]:
    return {"type": "text", "text": text} | (
        {"cache_control": {"type": "ephemeral", "ttl": ttl}} if ttl else {}
    )


def asked(system: list[Any], *turns: list[Any], tools: list[Any] | None = None) -> GenerationRequest:
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": content} for place, content in enumerate(turns)]
    body = {"model": "m", "max_tokens": 9, "system": system, "messages": messages} | (
        {"tools": tools} if tools else {}
    )
    return PROTOCOLS["messages"].parse_alone(json.dumps(body).encode())


def text_kept_longer(adapter: ModelAdapter, request: GenerationRequest) -> str:
    prepared = adapter.prepare_input(request)
    return adapter.vocabulary.decode(prepared.token_ids[: prepared.num_long_ttl_tokens])


def test_breakpoint_ends_with_its_part(adapter: ModelAdapter) -> None:
    request = asked(
        [block("The sea is wide.")],
        [block("One?"), block(" Two?", "1h"), block(" Three?")],
        [block("Yes")],
        [block("So?", "5m")],
    )

    kept = text_kept_longer(adapter, request)

    assert "The sea is wide." in kept
    assert "Two?" in kept
    assert "Three" not in kept


def test_breakpoint_on_a_message_excludes_the_answer(adapter: ModelAdapter) -> None:
    whole = adapter.vocabulary.decode(
        adapter.prepare_input(asked([block("Hi")], [block("One?")], [block("Yes")], [block("So?")])).token_ids
    )
    request = asked([block("Hi")], [block("One?", "1h")], [block("Yes")], [block("So?", "5m")])

    kept = text_kept_longer(adapter, request)

    assert whole.startswith(kept)
    assert kept.index("One?") < len(kept) <= whole.index("Yes")


def test_breakpoint_on_a_tool_excludes_later_tools() -> None:
    adapter = create_adapter(read_model(tiny_models.model("qwen3")), name="qwen3")
    marked = [TOOLS[0] | {"cache_control": {"type": "ephemeral", "ttl": "1h"}}, TOOLS[1]]

    kept = text_kept_longer(adapter, asked([block("Hi")], [block("One?", "5m")], tools=marked))

    assert "Tells the clock." in kept
    assert "weather" not in kept


def test_long_ttl_alone_needs_no_breakpoint(adapter: ModelAdapter) -> None:
    assert adapter.prepare_input(asked([block("Hi", "1h")], [block("One?")])).num_long_ttl_tokens == 0

"""Names of agents, and the bounds of their store."""

import asyncio
from array import array
from dataclasses import replace

import pytest

from mlxctl.inference.active_agents import (
    ACTIVE_SECONDS,
    MAX_AGENTS,
    MAX_BYTES,
    REFRESH_SECONDS,
    ActiveAgents,
)
from mlxctl.inference.cache.recent_prompts import RecordedPrompt
from mlxctl.inference.preparation import PackedRequest
from mlxctl.inference.preparation.jobs import opening_digest
from mlxctl.ir import GenerationRequest, ToolSpec, text_message
from tests.engine.harness import running_engine

REQUEST = GenerationRequest(model="tiny", messages=(text_message("user", "Hello!"),))


def test_opening_covers_tools_and_system_but_not_later_turns() -> None:
    later = replace(REQUEST, messages=(*REQUEST.messages, text_message("assistant", "Yes?")))
    with_tool = replace(REQUEST, tools=(ToolSpec(name="row", parameters={"b": 1, "a": 2}),))
    same_tool = replace(REQUEST, tools=(ToolSpec(name="row", parameters={"a": 2, "b": 1}),))
    with_system = replace(REQUEST, messages=(text_message("system", "Be brief."), *REQUEST.messages))

    assert opening_digest(REQUEST) == opening_digest(later) != opening_digest(with_system)
    assert opening_digest(with_tool) == opening_digest(same_tool) != opening_digest(REQUEST)
    assert opening_digest(GenerationRequest(model="tiny", prompts=("Hello!",))) is None


@pytest.mark.parametrize(
    ("num_tokens", "expected"), [(10, MAX_AGENTS), (MAX_BYTES // 40, 10)], ids=["number", "bytes"]
)
def test_agents_are_bounded_in_number_and_bytes(num_tokens: int, expected: int) -> None:
    async def num_kept() -> int:
        async with running_engine() as engine:
            agents = ActiveAgents(engine)
            for number in range(MAX_AGENTS + 5):
                agents.record(f"agent-{number}", prompt(num_tokens), b"", owner="")
            return await num_active(agents)

    assert asyncio.run(num_kept()) == expected


def test_agents_count_as_active_for_an_hour() -> None:
    async def nums_active() -> tuple[int, int]:
        async with running_engine() as engine:
            now = [1000.0]
            agents = ActiveAgents(engine, clock=lambda: now[0])
            agents.record("early", prompt(10), b"", owner="")
            now[0] += ACTIVE_SECONDS - 1
            agents.record("late", prompt(10), b"", owner="")
            before = await num_active(agents)
            now[0] += REFRESH_SECONDS
            return before, await num_active(agents)

    assert asyncio.run(nums_active()) == (2, 1)


def prompt(num_tokens: int) -> RecordedPrompt:
    return RecordedPrompt(
        number=1,
        at=0.0,
        model="tiny",
        packed=PackedRequest.of(REQUEST),
        num_prompt_tokens=num_tokens,
        prompt_ids=array("I", [7]) * num_tokens,
        num_engine_restarts=0,
    )


async def num_active(agents: ActiveAgents) -> int:
    async with asyncio.timeout(60):
        while (found := await agents.cached_prompts()) is None:
            pass
    return len(found)

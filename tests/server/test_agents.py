"""Agents on a real server: histories, queues and failures."""

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import httpx
import pytest

from .agent_client import BRIEF, Agent
from .hosted import HostedServer, hosting

CONTEXT_LENGTH = 1024


@pytest.fixture(scope="module")
def short(endless_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a short context."""
    model = tmp_path_factory.mktemp("models") / "short"
    shutil.copytree(endless_model, model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": CONTEXT_LENGTH}))
    return model


@pytest.fixture(scope="module")
def server(endless_model: Path, short: Path) -> Iterator[HostedServer]:
    """A server with small histories, whose agents queue three turns."""
    limits = {"MLXCTL_SERVER_AGENT_QUEUE": "3", "MLXCTL_SERVER_AGENT_HISTORY_BYTES": "20000"}
    with hosting(endless_model, "--model", str(short), **limits) as running:
        yield running


def test_turns_equal_the_whole_conversation(server: HostedServer) -> None:
    agent = Agent(server, instructions="Be brief.")
    answers = [agent.answer_to("One"), agent.answer_to("Two")]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": answers[0]},
        {"role": "user", "content": "Two"},
    ]
    chat = httpx.post(
        f"{server.url}/v1/chat/completions", json={**BRIEF, "model": "tiny", "messages": messages}, timeout=30
    )
    assert chat.json()["choices"][0]["message"]["content"] == answers[1] != ""
    assert [message["content"] for message in agent.history()] == ["One", answers[0], "Two", answers[1]]


def test_streamed_turn_leaves_the_same_history(server: HostedServer) -> None:
    whole, streamed = Agent(server), Agent(server)
    whole.answer_to("Hello")
    with streamed.stream("Hello", **BRIEF) as answer:
        lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    assert json.loads(lines[-2][6:])["choices"][0]["finish_reason"] == "length"
    assert streamed.history() == whole.history()
    assert len(whole.history()) == 2


def test_only_new_messages_are_prefilled(server: HostedServer) -> None:
    agent = Agent(server, instructions="A long beginning. " * 20)
    agent.answer_to("One")
    usage = agent.turn("Two").json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"] // 2
    looked = agent.look()
    assert (looked["status"], looked["num_messages"]) == ("hot", 4)
    assert looked["cached_tokens"] > looked["context_tokens"] // 2
    assert looked["context_tokens"] > usage["prompt_tokens"]


def test_concurrent_turns_run_one_after_another(server: HostedServer) -> None:
    agent = Agent(server)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda number: agent.answer_to(f"Turn {number}"), range(4)))
    history = [message["content"] for message in agent.history()]
    assert [message["role"] for message in agent.history()] == ["user", "assistant"] * 4
    for number, answer in enumerate(answers):
        assert history[history.index(f"Turn {number}") + 1] == answer


def test_turns_beyond_the_queue_limit_are_refused(server: HostedServer) -> None:
    agent = Agent(server)
    with ThreadPoolExecutor(4) as pool, agent.stream("One") as first:
        lines = first.iter_lines()
        next(lines)
        others = as_completed([pool.submit(agent.turn, text) for text in ("2", "3", "4", "5")], timeout=60)
        refused = next(others).result()
        turns = server.health()["agents"]
        first.close()
        answered = [other.result().status_code for other in others]
    assert (refused.status_code, "retry-after" in refused.headers) == (429, True)
    assert (turns["running"], turns["waiting"]) == (1, 3)
    assert answered == [200, 200, 200]
    assert len(agent.history()) == 6


def test_disconnect_leaves_the_history_unchanged(server: HostedServer) -> None:
    agent = Agent(server)
    agent.answer_to("One")
    before = agent.history()
    with agent.stream("Two") as answer:
        next(answer.iter_lines())
    assert agent.answer_to("Three") != ""
    assert agent.history()[:2] == before
    assert [message["content"] for message in agent.history()[2::2]] == ["Three"]


def test_reset_fails_a_running_turn(server: HostedServer) -> None:
    agent = Agent(server)
    agent.answer_to("One")
    # Long enough that the reset comes before its end.
    with httpx.Client() as client, agent.stream("Two", max_tokens=400) as answer:
        lines = answer.iter_lines()
        next(lines)
        assert client.post(f"{agent.url}/reset").json()["num_messages"] == 0
        rest = [line for line in lines if line.startswith("data: ")]
    assert json.loads(rest[-2][6:])["error"]["code"] == "conflict"
    assert rest[-1] == "data: [DONE]"
    assert agent.history() == []
    assert agent.look()["context_tokens"] == 0


def test_changed_agent_keeps_its_history(server: HostedServer) -> None:
    agent = Agent(server, instructions="Be brief.", metadata={"trip": "1"})
    first = agent.answer_to("One")
    changed = httpx.patch(
        agent.url, json={"instructions": "Be long.", "context_overflow": "drop_oldest"}, timeout=30
    ).json()
    assert (changed["instructions"], changed["context_overflow"], changed["num_messages"]) == (
        "Be long.",
        "drop_oldest",
        2,
    )
    assert (changed["model"], changed["metadata"]) == ("tiny", {"trip": "1"})
    messages = [
        {"role": "system", "content": "Be long."},
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": first},
        {"role": "user", "content": "Two"},
    ]
    chat = httpx.post(
        f"{server.url}/v1/chat/completions", json={**BRIEF, "model": "tiny", "messages": messages}, timeout=30
    )
    assert agent.answer_to("Two") == chat.json()["choices"][0]["message"]["content"]
    taken_away = httpx.patch(agent.url, json={"instructions": None, "metadata": None}, timeout=30).json()
    assert (taken_away["instructions"], taken_away["metadata"], taken_away["num_messages"]) == (None, None, 4)


def test_running_turn_continues_when_its_agent_changes(server: HostedServer) -> None:
    agent = Agent(server)
    with agent.stream("One", max_tokens=100) as answer:
        lines = answer.iter_lines()
        next(lines)
        assert httpx.patch(agent.url, json={"instructions": "Go on."}, timeout=30).status_code == 200
        rest = [line for line in lines if line.startswith("data: ")]
    assert json.loads(rest[-2][6:])["choices"][0]["finish_reason"] == "length"
    looked = agent.look()
    assert (looked["instructions"], looked["num_messages"]) == ("Go on.", 2)


def test_unknown_model_is_refused_when_an_agent_is_made_or_changed(server: HostedServer) -> None:
    made = httpx.post(f"{server.url}/v1/agents", json={"model": "later"}, timeout=30)
    changed = httpx.patch(Agent(server).url, json={"model": "later"}, timeout=30)
    for answer in (made, changed):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


def test_deleted_agent_is_not_found(server: HostedServer) -> None:
    agent = Agent(server, id="one-time")
    assert httpx.delete(agent.url, timeout=30).json() == {
        "id": "one-time",
        "object": "agent",
        "deleted": True,
    }
    assert (
        agent.turn("Hello").status_code
        == httpx.get(agent.url).status_code
        == httpx.delete(agent.url).status_code
        == 404
    )
    assert httpx.patch(agent.url, json={"instructions": "Be there."}).status_code == 404
    assert (
        httpx.post(f"{agent.url}/reset").status_code == httpx.get(f"{agent.url}/messages").status_code == 404
    )


def test_full_context_is_an_error_unless_drop_oldest(server: HostedServer) -> None:
    agent = Agent(server, model="short", instructions="Remember.")
    for number in range(6):
        agent.answer_to(f"Turn {number}: " + "very long " * 10)
    before = agent.history()
    refused = agent.turn("Again: " + "very long " * 60)
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert agent.history() == before
    answer = agent.turn("Again: " + "very long " * 60, context_overflow="drop_oldest").json()
    assert CONTEXT_LENGTH // 2 < answer["usage"]["prompt_tokens"] <= CONTEXT_LENGTH
    assert len(agent.history()) == len(before) + 2


def test_max_context_of_an_agent_bounds_its_turns(server: HostedServer) -> None:
    agent = Agent(server, agent_id="bounded", system_prompt="Be brief.", max_context=200)
    refused = agent.turn("very long " * 60)
    assert "200" in refused.json()["error"]["message"]
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    found = agent.look()
    assert (found["id"], found["instructions"], found["max_context"]) == ("bounded", "Be brief.", 200)


def test_history_size_is_bounded(server: HostedServer) -> None:
    agent = Agent(server, model="short", context_overflow="drop_oldest")
    refused = agent.turn("x" * 20_000)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "agent_history_full")
    assert agent.history() == []


def test_instructions_count_toward_the_history_size(server: HostedServer) -> None:
    agent = Agent(server, model="short", instructions="y" * 15_000)
    refused = agent.turn("x" * 6_000)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "agent_history_full")


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"instructions": "x" * (1 << 20)}, "instructions"),
        (
            {"tools": [{"type": "function", "function": {"name": "t", "description": "x" * (1 << 20)}}]},
            "tools",
        ),
        (
            {
                "instructions": "x" * 600_000,
                "tools": [{"type": "function", "function": {"name": "t", "description": "y" * 500_000}}],
            },
            "instructions",
        ),
        ({"metadata": {"x": "y" * 513}}, "metadata"),
        ({"model": "m" * 1025}, "model"),
    ],
)
def test_agent_settings_size_is_bounded(server: HostedServer, settings: dict[str, Any], param: str) -> None:
    agent = Agent(server, instructions="Be brief.")
    made = httpx.post(f"{server.url}/v1/agents", json={"model": "tiny", **settings})
    changed = httpx.patch(agent.url, json=settings)
    for refused in (made, changed):
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
        assert any(limit in refused.text for limit in ("1048576", "512", "1024"))
    assert agent.look()["instructions"] == "Be brief."


def test_page_of_large_agents_is_shorter(server: HostedServer) -> None:
    made = [
        Agent(server, id=f"large-{number}", instructions="x" * 1_000_000).look()["id"] for number in range(6)
    ]
    page = httpx.get(f"{server.url}/v1/agents?limit=100")
    listed: list[str] = []
    while True:
        assert len(page.content) < 5 << 20
        listed += [agent["id"] for agent in page.json()["data"]]
        if not page.json()["has_more"]:
            break
        page = httpx.get(f"{server.url}/v1/agents?limit=100&after={listed[-1]}")
    for agent_id in made:
        httpx.delete(f"{server.url}/v1/agents/{agent_id}")
    assert len(set(listed)) == len(listed)
    assert [agent_id for agent_id in listed if agent_id in made] == made


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "model"),
        ({"model": 5}, "model"),
        ({"model": "tiny", "id": "not/an id"}, "id"),
        ({"model": "tiny", "context_overflow": "drop"}, "context_overflow"),
        ({"model": "tiny", "instructions": ["no"]}, "instructions"),
        ({"model": "tiny", "prompt": "no such field"}, "prompt"),
        ({"model": "tiny", "instructions": "a", "system_prompt": "b"}, "system_prompt"),
        ({"model": "tiny", "metadata": {"a": 1}}, "metadata"),
        ({"model": "tiny", "tools": [{"type": "function"}]}, "tools[0].function"),
    ],
)
def test_invalid_agent_is_refused_by_name(server: HostedServer, body: Any, param: str) -> None:
    refused = httpx.post(f"{server.url}/v1/agents", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "Hi"}], "n": 2}, "n"),
        ({"messages": [{"role": "user", "content": "Hi"}], "context_overflow": 1}, "context_overflow"),
        (
            {"messages": [{"role": "tool", "tool_call_id": "none", "content": "Hi"}]},
            "messages[0].tool_call_id",
        ),
    ],
)
def test_invalid_turn_is_refused_by_name(server: HostedServer, body: Any, param: str) -> None:
    agent = Agent(server)
    refused = httpx.post(f"{agent.url}/generate", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
    assert agent.history() == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"context_overflow": None}, "context_overflow"),
        ({"instruction": "Be brief."}, "instruction"),
        ([], None),
    ],
)
def test_invalid_change_is_refused_without_effect(server: HostedServer, body: Any, param: str | None) -> None:
    agent = Agent(server, instructions="Be brief.")
    refused = httpx.patch(agent.url, json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
    assert agent.look()["instructions"] == "Be brief."


def test_duplicate_agent_id_is_refused(server: HostedServer) -> None:
    Agent(server, id="taken")
    refused = httpx.post(f"{server.url}/v1/agents", json={"model": "tiny", "id": "taken"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (409, "id")


def test_agents_are_listed_in_pages(server: HostedServer) -> None:
    ids = [Agent(server).url.rsplit("/", 1)[1] for _ in range(3)]
    everybody = httpx.get(f"{server.url}/v1/agents?limit=100").json()
    page = httpx.get(f"{server.url}/v1/agents?limit=1&after={ids[0]}").json()
    assert [agent["id"] for agent in everybody["data"]][-3:] == ids
    assert ([agent["id"] for agent in page["data"]], page["has_more"]) == ([ids[1]], True)
    for query, param in (("limit=0", "limit"), ("limit=x", "limit"), ("after=missing", "after")):
        refused = httpx.get(f"{server.url}/v1/agents?{query}")
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


def test_a_tool_call_and_its_result_are_part_of_the_history(server: HostedServer) -> None:
    tool = {
        "name": "get_weather",
        "description": "Get the weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Lisbon", "Oslo"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    }
    agent = Agent(server, tools=[{"type": "function", "function": tool}])
    forced = {"tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 200}
    called = agent.turn("What is the weather in Lisbon?", **forced).json()["choices"][0]["message"]
    (call,) = called["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}
    answer = agent.turn("", messages=[result])
    history = agent.history()
    assert call["function"]["name"] == "get_weather"
    assert answer.status_code == 200
    assert [message["role"] for message in history] == ["user", "assistant", "tool", "assistant"]
    assert history[1]["tool_calls"] == [call]
    assert history[2]["content"] == "sunny"

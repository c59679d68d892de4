"""Agent traces: files, shared blocks, and their replay."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mlxctl.bench.traces import TraceRequest, TraceSession, read_traces, reusable
from mlxctl.cli import app
from mlxctl.ir.errors import SettingsError
from tests import tiny_models
from tests.server.hosted import hosting


def call(num_in: int, *hash_ids: int, kind: str = "s", **more: Any) -> dict[str, Any]:
    return {"t": 0.0, "type": kind, "model": "m", "in": num_in, "out": 4, "hash_ids": hash_ids, **more}


def agent(name: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"t": 1.0, "type": "subagent", "agent_id": name, "subagent_type": "Explore", "requests": calls}


def hashed(*requests: dict[str, Any], name: str = "a") -> str:
    return json.dumps({"id": name, "block_size": 64, "hash_id_scope": "local", "requests": requests})


def test_trace_with_subagents_keeps_their_order(tmp_path: Path) -> None:
    trace = tmp_path / "a.json"
    main, last = call(128, 1, 2, think_time=2.5), call(192, 1, 2, 3, kind="n")
    trace.write_text(hashed(main, agent("x", call(64, 9)), agent("y", call(64, 8), call(100, 8, 7)), last))

    (session,) = read_traces(trace)

    first, agents, end = session.steps
    assert isinstance(first, TraceRequest)
    assert isinstance(agents, tuple)
    assert (first.think_seconds, [len(inner.steps) for inner in agents]) == (2.5, [1, 2])
    assert isinstance(end, TraceRequest)


def test_requests_of_one_session_id_are_a_session(tmp_path: Path) -> None:
    lines = [
        {"messages": [{"role": "user", "content": text}], "session_id": session}
        for text, session in (("one", "a"), ("two", "b"), ("three", "a"))
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, lines)))

    sessions = read_traces(tmp_path)

    assert [(session.name, len(session.steps)) for session in sessions] == [("a", 2), ("b", 1)]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.json", "{", "Input data was truncated"),
        ("a.json", '{"requests": [], "block_size": 0}', "block_size"),
        ("a.json", hashed(call(-1)), "in"),
        ("a.json", hashed(), "has no requests"),
        ("a.jsonl", '{"messages": []}', "line 1"),
        ("a.txt", "", "end with .json or .jsonl"),
    ],
)
def test_damaged_trace_is_refused_by_name(tmp_path: Path, name: str, content: str, problem: str) -> None:
    (tmp_path / name).write_text(content)

    with pytest.raises(SettingsError, match=problem):
        read_traces(tmp_path)


def test_only_prefixes_are_reusable() -> None:
    prompts = [[("a", 10), ("b", 5)], [("a", 10), ("c", 5), ("b", 5)], [("b", 5)]]

    assert reusable(prompts) == (10, 40)


def test_scaled_session_keeps_its_blocks() -> None:
    request = TraceRequest(num_answer_tokens=40, num_prompt_tokens=1000, block_size=64, block_ids=(1, 2))

    (scaled,) = TraceSession(name="a", steps=(request,)).scaled(0.25).requests()

    assert (scaled.num_prompt_tokens, scaled.block_size, scaled.block_ids) == (250, 16, (1, 2))


def replay(trace: Path) -> dict[str, Any]:
    """Replay a trace on a server; return the stored result."""
    options = ["--rounds", "1", "--warmups", "0", "--json", "--agents-at-once", "2"]
    with hosting(tiny_models.model("endless")) as server:
        run = CliRunner().invoke(
            app,
            [
                *("bench", "agents", "--trace", str(trace), "--url", server.url),
                *(*options, "--out", str(trace / "result")),
            ],
        )
    assert run.exit_code == 0, run.output
    result: dict[str, Any] = json.loads(run.stdout)
    return result | {found["name"]: found["median"] for found in result["measurements"]}


def test_replayed_trace_reuses_nearly_what_is_possible(tmp_path: Path) -> None:
    turns = [call(64 * number + 20, *range(number + 1)) for number in range(2, 12)]
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(
            hashed(*turns[:5], agent("x", call(200, 70, 71, 72, 73)), *turns[5:], name=name)
        )

    result = replay(tmp_path)

    assert result["jobs_per_hour"] > 0
    assert 0.95 < result["cached_of_possible"] < 1.05


def test_session_with_a_request_beyond_the_context_is_no_finished_job(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(hashed(call(64, 1), call(10**9, 1)))

    result = replay(tmp_path)

    assert result["jobs_per_hour"] == 0
    assert "longer than the model's context" in str(result["notes"])

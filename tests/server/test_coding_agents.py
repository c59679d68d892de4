"""Requests of the shape that Claude Code and Codex send.

The bodies have the fields that these clients send, with our own text. `python -m tests.clients` runs the
clients.
"""

import json
from typing import Any

import httpx

from .process import ServerProcess

MODEL = "mlxctl-demo"
CLAUDE_HEADERS = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,"
    "context-management-2025-06-27,effort-2025-11-24",
    "x-api-key": "dummy",
    "x-app": "cli",
    "accept": "application/json",
}
CACHED = {"cache_control": {"type": "ephemeral"}}
ENVIRONMENT = "# Environment\nA directory of notes, and no version control."
BASH = {
    "name": "Bash",
    "description": "Runs a command.",
    "input_schema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "number", "exclusiveMinimum": 0}},
        "required": ["command"],
        "additionalProperties": False,
    },
}
DEFERRED = {
    **BASH,
    "name": "WebFetch",
    "description": "A tool to be looked for. " * 40,
    "defer_loading": True,
}


def claude_body(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "model": MODEL,
        "messages": list(messages),
        "system": [
            {"type": "text", "text": "x-header: version=1;"},
            {"type": "text", "text": "You are an agent.", **CACHED},
        ],
        "tools": [BASH, DEFERRED],
        "metadata": {"user_id": '{"device_id": "d", "session_id": "s"}'},
        # Claude Code sends 32,000; the demo model does not always end before.
        "max_tokens": 200,
        "thinking": {"type": "adaptive", "display": "updates"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
        "stream": True,
        **more,
    }


QUESTION = {
    "role": "user",
    "content": [
        {"type": "text", "text": "<system-reminder>It is autumn.</system-reminder>"},
        {"type": "text", "text": "Run pwd."},
    ],
}
MID_SYSTEM = {
    "role": "system",
    "content": [{"type": "text", "text": ENVIRONMENT, **CACHED}],
    "output_config": {"effort": "high"},
}
MID_SYSTEM_LATER = {"role": "system", "content": ENVIRONMENT}
CALL = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "pwd"}}],
}
RESULT_BLOCK = {
    "type": "tool_result",
    "tool_use_id": "toolu_1",
    "content": "/home/notes",
    "is_error": False,
    **CACHED,
}
RESULT = {"role": "user", "content": [RESULT_BLOCK]}


def events(answer: httpx.Response) -> list[tuple[str, dict[str, Any]]]:
    """Return the named events of a stream, without comments."""
    assert answer.status_code == 200, answer.text
    found = []
    for block in answer.text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields.get("data", "[DONE]") != "[DONE]":
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def ask_as_claude(
    server: ServerProcess, body: dict[str, Any], path: str = "/v1/messages?beta=true"
) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json=body, headers=CLAUDE_HEADERS, timeout=60)


def test_claude_code_gets_every_block_stop_and_usage(demo_server: ServerProcess) -> None:
    streamed = events(ask_as_claude(demo_server, claude_body(QUESTION, MID_SYSTEM)))
    names = [name for name, _ in streamed if name != "ping"]
    assert names[0] == "message_start"
    assert names[-2:] == ["message_delta", "message_stop"]
    assert names.count("content_block_start") == names.count("content_block_stop") > 0
    assert streamed[-2][1]["usage"]["output_tokens"] > 0
    assert streamed[-2][1]["delta"]["stop_reason"] in ("end_turn", "tool_use", "max_tokens")


def test_claude_code_second_turn_hits_the_cache(demo_server: ServerProcess) -> None:
    first = events(ask_as_claude(demo_server, claude_body(QUESTION, MID_SYSTEM)))
    second = events(ask_as_claude(demo_server, claude_body(QUESTION, MID_SYSTEM_LATER, CALL, RESULT)))
    usage = second[-2][1]["usage"]
    num_first = sum(first[-2][1]["usage"][name] for name in ("input_tokens", "cache_read_input_tokens"))
    assert usage["cache_read_input_tokens"] >= num_first - 16


def test_claude_code_counts_equal_usage_under_load(demo_server: ServerProcess) -> None:
    body = claude_body(QUESTION, MID_SYSTEM)
    sent = {
        name: body[name] for name in ("model", "messages", "tools", "system", "thinking", "output_config")
    }
    counted = ask_as_claude(demo_server, sent, "/v1/messages/count_tokens?beta=true").json()
    used = events(ask_as_claude(demo_server, body))[-2][1]["usage"]
    assert (
        counted["input_tokens"]
        == used["input_tokens"] + used["cache_read_input_tokens"] + used["cache_creation_input_tokens"]
    )


def test_deferred_tool_costs_no_tokens_until_referenced(
    demo_server: ServerProcess,
) -> None:
    def count(*messages: dict[str, Any], tools: list[dict[str, Any]]) -> int:
        sent = {"model": MODEL, "messages": list(messages), "tools": tools}
        return int(ask_as_claude(demo_server, sent, "/v1/messages/count_tokens").json()["input_tokens"])

    reference = [
        {"type": "tool_reference", "tool_name": "WebFetch"},
        {"type": "text", "text": "Tool loaded."},
    ]
    found = {"role": "user", "content": [{**RESULT_BLOCK, "content": reference}]}
    assert count(QUESTION, tools=[BASH, DEFERRED]) == count(QUESTION, tools=[BASH])
    assert (
        count(QUESTION, CALL, found, tools=[BASH, DEFERRED])
        > count(QUESTION, CALL, RESULT, tools=[BASH, DEFERRED]) + 50
    )


def test_claude_code_startup_request_is_answered(demo_server: ServerProcess) -> None:
    assert httpx.head(f"{demo_server.url}/api/hello").status_code == 200
    listed = httpx.get(f"{demo_server.url}/v1/models?limit=1000", headers=CLAUDE_HEADERS).json()
    assert listed["data"][0]["id"] == MODEL


COMMAND = {
    "type": "function",
    "name": "exec_command",
    "description": "Runs a command.",
    "strict": False,
    "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
}
NAMESPACE = {"type": "namespace", "name": "multi_agent_v1", "tools": [{**COMMAND, "name": "wait_agent"}]}
SEARCH = {"type": "web_search", "external_web_access": True}


def message(role: str, text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"msg_{role}",
        "role": role,
        "content": [{"type": "input_text", "text": text}],
    }


OPENING = [
    message("developer", "You are an agent."),
    message("user", "<env>notes</env>"),
    message("user", "Run pwd."),
]
CALLED = {
    "type": "function_call",
    "status": "completed",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "exec_command",
    "arguments": '{"cmd": "pwd"}',
}
OUTPUT = {
    "type": "function_call_output",
    "id": "fco_1",
    "call_id": "call_1",
    "output": "Exit code 0\nOutput:\n/home/notes\n",
}


def ask_as_codex(
    server: ServerProcess, *items: dict[str, Any], **more: Any
) -> list[tuple[str, dict[str, Any]]]:
    body = {
        "model": MODEL,
        "stream": True,
        "input": [*OPENING, *items],
        "tools": [COMMAND, NAMESPACE, SEARCH],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"summary": "auto"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "a-thread",
        "client_metadata": {"originator": "codex_exec"},
        **more,
    }
    headers = {"authorization": "Bearer dummy", "accept": "text/event-stream", "originator": "codex_exec"}
    return events(httpx.post(f"{server.url}/v1/responses", json=body, headers=headers, timeout=60))


def test_codex_gets_every_item_done_and_response_completed(demo_server: ServerProcess) -> None:
    streamed = ask_as_codex(demo_server)
    names = [name for name, _ in streamed]
    assert names.count("response.output_item.added") == names.count("response.output_item.done") > 0
    assert names[-1] == "response.completed"
    done = [event["item"]["id"] for name, event in streamed if name == "response.output_item.done"]
    assert done == [item["id"] for item in streamed[-1][1]["response"]["output"]]


def test_codex_second_turn_hits_the_cache(demo_server: ServerProcess) -> None:
    first = ask_as_codex(demo_server)[-1][1]["response"]["usage"]
    second = ask_as_codex(demo_server, CALLED, OUTPUT)[-1][1]["response"]["usage"]
    assert second["input_tokens_details"]["cached_tokens"] >= first["input_tokens"] - 16


def test_codex_gets_namespaced_calls(demo_server: ServerProcess) -> None:
    (call,) = [
        event["item"]
        for name, event in ask_as_codex(
            demo_server, tool_choice="required", tools=[NAMESPACE], max_output_tokens=300
        )
        if name == "response.output_item.done"
    ]
    assert (call["type"], call["name"], call["namespace"]) == (
        "function_call",
        "wait_agent",
        "multi_agent_v1",
    )


def test_codex_gets_context_length_exceeded(demo_server: ServerProcess) -> None:
    body = {"model": MODEL, "stream": True, "input": [*OPENING, message("user", "very long " * 20_000)]}
    refused = httpx.post(f"{demo_server.url}/v1/responses", json=body, timeout=60)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")

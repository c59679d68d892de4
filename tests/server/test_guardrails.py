"""Guardrails of a running server, in every protocol."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from mlxctl.cli import app

from .hosted import HostedServer, hosting
from .process import wait_for

HELLO = [{"role": "user", "content": "hello there"}]
CHAT = {"model": "tiny", "messages": HELLO, "max_tokens": 60, "temperature": 0}


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[HostedServer]:
    with hosting(endless_model, "--audit") as running:
        yield running


def set_rules(server: HostedServer, **rules: Any) -> None:
    assert httpx.put(f"{server.url}/admin/guardrails", json=rules).is_success


def post(server: HostedServer, path: str, body: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=60)


def answer_of(server: HostedServer) -> str:
    set_rules(server)
    answer = post(server, "/v1/chat/completions", CHAT).json()
    return str(answer["choices"][0]["message"]["content"])


def streamed(server: HostedServer, path: str, body: Any) -> tuple[str, str]:
    """Return the text of a stream, and all of its bytes."""
    raw = post(server, path, {**body, "stream": True}).text
    events = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {")]
    pieces = [
        event.get("delta", {}).get("text") if path == "/v1/messages" else choice["delta"].get("content")
        for event in events
        for choice in event.get("choices", [{}])[:1]
        if path == "/v1/messages" or event["choices"]
    ]
    return "".join(piece or "" for piece in pieces), raw


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/v1/chat/completions", '"finish_reason":"content_filter"'),
        ("/v1/messages", '"stop_reason":"refusal"'),
    ],
)
def test_matching_text_of_a_stream_is_never_sent(server: HostedServer, path: str, reason: str) -> None:
    whole = answer_of(server)
    forbidden = whole[20:28]
    set_rules(server, regex=[re.escape(forbidden)])

    shown, raw = streamed(server, path, CHAT)

    assert shown == whole[: whole.index(forbidden)]
    assert reason in raw
    assert post(server, path, CHAT).text.replace(" ", "").count(reason) == 1


def test_redacted_answer_continues(server: HostedServer) -> None:
    whole = answer_of(server)
    forbidden = whole[20:28]
    set_rules(server, regex=[re.escape(forbidden)], action="redact")
    assert streamed(server, "/v1/chat/completions", CHAT)[0] == whole.replace(forbidden, "[redacted]")


def test_every_choice_and_response_is_filtered(server: HostedServer) -> None:
    whole = answer_of(server)
    set_rules(server, regex=[re.escape(whole[20:28])])
    choices = post(server, "/v1/chat/completions", CHAT | {"n": 2}).json()["choices"]
    assert [choice["finish_reason"] for choice in choices] == ["content_filter"] * 2
    raw = post(server, "/v1/chat/completions", CHAT | {"n": 2, "stream": True}).text
    assert raw.count('"finish_reason":"content_filter"') == 2
    body = {"model": "tiny", "input": HELLO, "max_output_tokens": 60, "temperature": 0}
    response = post(server, "/v1/responses", body).json()
    assert response["incomplete_details"] == {"reason": "content_filter"}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_matching_prompt_is_refused_without_repeating_it(server: HostedServer, path: str) -> None:
    set_rules(server, blocklist=["there"], apply_to=["input"])
    refused = post(server, path, CHAT)
    assert refused.status_code == 400
    assert "does not accept" in refused.text
    assert "there" not in refused.text


def test_audit_log_has_the_verdict(server: HostedServer) -> None:
    set_rules(server, blocklist=["there"], action="flag", apply_to=["input"])
    assert post(server, "/v1/messages", CHAT).is_success

    def verdicts() -> list[str | None]:
        records = httpx.get(f"{server.url}/admin/audit?limit=3").json()["records"]
        return [record.get("guardrail") for record in records]

    wait_for(lambda: "flagged" in verdicts(), seconds=20)
    assert 'mlxctl_guardrail_matches_total{verdict="flagged"} 1.0' in httpx.get(f"{server.url}/metrics").text


def test_guardrails_can_be_tried_and_refuse_bad_patterns(server: HostedServer) -> None:
    set_rules(server, regex=[r"\d+"], action="redact")
    tried = post(server, "/admin/guardrails/test", {"text": "call 117"}).json()
    assert tried == {"verdict": "redacted", "text": "call [redacted]"}
    refused = httpx.put(f"{server.url}/admin/guardrails", json={"regex": ["("]})
    assert (refused.status_code, "regex[0]" in refused.text) == (400, True)


def test_request_is_tried_without_running_it(server: HostedServer, tmp_path: Path) -> None:
    set_rules(server, blocklist=["hello there"], action="redact", apply_to=["input"])
    parts = [{"type": "text", "text": "say hello "}, {"type": "text", "text": "there"}]
    tools = [{"name": "greet", "description": "Hello there!", "input_schema": {"type": "object"}}]
    body = {**CHAT, "messages": [{"role": "user", "content": parts}], "tools": tools}
    tried = post(server, "/admin/guardrails/test", {"request": body, "protocol": "messages"}).json()
    assert tried == {
        "verdict": "redacted",
        "matches": [
            {"where": "messages[0] (user)", "verdict": "redacted", "text": "say [redacted]"},
            {"where": "tool 'greet'", "verdict": "redacted", "text": "[redacted]!"},
        ],
    }
    file = tmp_path / "request.json"
    file.write_text(json.dumps(body))
    shown = CliRunner().invoke(
        app, ["admin", "guardrails", "test", "--request", str(file), "--url", server.url]
    )
    assert json.loads(shown.stdout) == tried

    set_rules(server, blocklist=["hello there"], models=["other*"])
    tried = post(server, "/admin/guardrails/test", {"request": CHAT}).json()
    assert tried == {"verdict": None, "matches": []}
    for wrong in ({}, {"text": "x", "request": CHAT}, {"request": {"model": "tiny"}}):
        assert post(server, "/admin/guardrails/test", wrong).status_code == 400


def test_request_beyond_its_limit_is_not_searched(server: HostedServer) -> None:
    set_rules(server, blocklist=["hello there"], apply_to=["input"])
    limits = f"{server.url}/admin/limits"
    assert httpx.put(limits, json={"requests_per_minute": 1}).is_success
    try:
        refused = [post(server, "/v1/chat/completions", CHAT).status_code for _ in range(2)]
    finally:
        httpx.put(limits, json={})
        set_rules(server)
    assert refused == [400, 429]

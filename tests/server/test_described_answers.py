"""Answers of every route match /openapi.json to the last field."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from protocols.scripts import (
    CUT_OFF,
    SCORED,
    SCRIPTS,
    THINKING,
    TWO_CALLS,
    chat,
    completion,
    interleaved,
    messages,
    responses,
    stream,
)

from mlxctl.ir import Usage, collect
from mlxctl.ir.errors import EngineDied
from mlxctl.protocols import Encoder

from .hosted import HostedServer, hosting
from .openapi_validation import DOCUMENT, check_answer, check_stream

ROUTES: dict[str, Callable[..., Encoder]] = {
    "/v1/chat/completions": chat,
    "/v1/messages": messages,
    "/v1/responses": responses,
}
ASKED: dict[str, Any] = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "Tell me of the sea. " * 10}],
    "max_tokens": 2,
}


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("script", SCRIPTS)
def test_answers_of_every_protocol_match_the_description(path: str, script: str) -> None:
    check_answer(json.loads(ROUTES[path]().whole(collect(SCRIPTS[script]))), "post", path)
    check_stream(stream(ROUTES[path](), SCRIPTS[script]).decode(), path)


@pytest.mark.parametrize("path", ROUTES)
def test_failed_streams_match_the_description(path: str) -> None:
    encoder = ROUTES[path]()
    wire = (
        encoder.begin(Usage(num_prompt_tokens=12))
        + encoder.on_event(CUT_OFF[0])
        + encoder.on_error(EngineDied("gone"))
    )
    check_stream(wire.decode(), path)


def test_answers_with_all_options_match_the_description() -> None:
    scored_chat: dict[str, Any] = {"logprobs": True, "top_logprobs": 2}
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    check_answer(json.loads(chat(**scored_chat).whole(collect(SCORED))), "post", "/v1/chat/completions")
    check_stream(stream(chat(**scored_chat), SCORED).decode(), "/v1/chat/completions")
    check_stream(
        interleaved(chat(n=3, **usage), CUT_OFF, TWO_CALLS, THINKING).decode(), "/v1/chat/completions"
    )
    check_answer(json.loads(completion(logprobs=1).whole(collect(SCORED))), "post", "/v1/completions")
    check_stream(stream(completion(logprobs=1, **usage), SCORED).decode(), "/v1/completions")
    for options in (
        {"reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"]},
        {"text": {"verbosity": "low"}},
    ):
        check_answer(json.loads(responses(**options).whole(collect(THINKING))), "post", "/v1/responses")
        check_stream(stream(responses(**options), THINKING).decode(), "/v1/responses")
    check_stream(stream(responses(top_logprobs=2), SCORED).decode(), "/v1/responses")


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[HostedServer]:
    """An own server, whose model and cache are pinned."""
    with hosting(endless_model) as running:
        yield running


def test_other_routes_match_the_description(server: HostedServer) -> None:
    def ask(
        method: str, path: str, *, body: Any = None, status: int = 200, query: str = "", **names: str
    ) -> Any:
        url = f"{server.url}{path.format(**names)}{query}"
        answer = httpx.request(method, url, json=body, timeout=60)
        assert answer.status_code == status, answer.text
        check_answer(answer.json(), method, path, status)
        return answer.json()

    ask("post", "/v1/chat/completions", body=ASKED)
    kept = ask("post", "/v1/responses", body={"model": "tiny", "input": "Hi", "max_output_tokens": 2})
    ask("get", "/v1/responses/{response_id}", response_id=kept["id"])
    ask("get", "/v1/responses/{response_id}/input_items", response_id=kept["id"])
    ask("post", "/v1/agents", body={"model": "tiny", "id": "helper"}, status=201)
    ask("post", "/v1/agents/{agent_id}/generate", body=ASKED, agent_id="helper")
    ask("patch", "/v1/agents/{agent_id}", body={"instructions": "Be brief."}, agent_id="helper")
    for path in ("/v1/agents", "/v1/agents/{agent_id}", "/v1/agents/{agent_id}/messages"):
        ask("get", path, agent_id="helper")
    ask("post", "/v1/agents/{agent_id}/reset", agent_id="helper")
    ask("delete", "/v1/agents/{agent_id}", agent_id="helper")
    ask("post", "/v1/messages/count_tokens", body=ASKED)
    for path in (
        "/v1/models",
        "/library",
        "/downloads",
        "/stats",
        "/requests",
        "/health",
        "/readyz",
        "/livez",
        "/openapi.json",
    ):
        ask("get", path)
    ask("get", "/v1/models/{name}", name="tiny")
    ask("get", "/fit", query="?model=tiny")
    (chunk, *_) = ask("get", "/cache")["chunks"]
    ask("post", "/cache/pin", body={"keys": [chunk["key"]]})
    ask("get", "/cache/explain", query="?last=10")
    ask("post", "/cache/explain", body={"body": ASKED})
    ask("post", "/models/pin", body={"model": "tiny"})


def test_every_described_object_has_properties() -> None:
    for kind, schema in DOCUMENT["components"]["schemas"].items():
        is_object = schema.get("type") == "object" and schema.get("additionalProperties") is not False
        assert not is_object or "properties" in schema, kind


def test_undescribed_field_fails_validation() -> None:
    with pytest.raises(jsonschema.ValidationError, match="surprise"):
        check_answer({"name": "mlxctl", "version": "1", "surprise": 1}, "get", "/livez")

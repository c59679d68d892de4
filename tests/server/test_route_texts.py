"""Guardrails, limits and audit log of every route of the table."""

import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from mlxctl.ir.errors import GuardrailMatched
from mlxctl.probe.questions import SPOKEN_SENTENCES
from mlxctl.protocols import openai_error
from mlxctl.server.routes import all_routes
from tests import tiny_models
from tests.tiny_models.audio_samples import speech_audio

from .hosted import HostedServer, hosting
from .process import wait_for

ADMIN = {"x-api-key": "key-of-admin"}
SPEECH = "whisper_words"
WORD = "falcon"
BLOCKED, ALLOWED = f"tell {WORD} now", "tell them now"
LIMITS = {"requests_per_minute": 1000, "tokens_per_minute": 1_000_000}

Body = dict[str, Any]


def chat(text: str) -> Body:
    return {"model": "tiny", "messages": [{"role": "user", "content": text}], "max_tokens": 2}


def completion(text: str) -> Body:
    return {"model": "tiny", "prompt": text, "max_tokens": 2}


def response(text: str) -> Body:
    return {"model": "tiny", "input": text, "max_output_tokens": 16}


def ollama(text: str, **fields: Any) -> Body:
    return {"model": "tiny", "options": {"num_predict": 2}, "stream": False, **fields, "prompt": text}


def embedding(text: str, field: str = "input") -> Body:
    return {"model": "vectors", field: ["bread", text]}


def ranking(text: str, field: str = "documents") -> Body:
    return {"model": "bert_scorer", "query": "bread", field: ["bread", text]}


def speech(text: str) -> Body:
    return {"model": SPEECH, "prompt": text}


def spoken(text: str) -> Body:
    return {"model": "voice", "input": text, "response_format": "wav"}


WRITES: dict[str, Callable[[str], Body]] = {
    **dict.fromkeys(("/v1/chat/completions", "/chat/completions", "/v1/messages", "/messages"), chat),
    **dict.fromkeys(("/v1/agents/{agent_id}/generate", "/api/v0/chat/completions"), chat),
    **dict.fromkeys(("/v1/completions", "/completions", "/api/v0/completions"), completion),
    **dict.fromkeys(("/v1/responses", "/responses"), response),
    **dict.fromkeys(("/v1/responses/compact", "/responses/compact"), response),
    "/api/v1/chat": response,
    "/api/chat": lambda text: ollama("", messages=chat(text)["messages"]),
    "/api/generate": ollama,
    "/completion": lambda text: {"prompt": text, "n_predict": 2},
    "/infill": lambda text: {"input_prefix": text, "input_suffix": "."},
    **dict.fromkeys(("/v1/audio/transcriptions", "/v1/audio/translations"), speech),
    **dict.fromkeys(("/audio/transcriptions", "/audio/translations"), speech),
}
"""Routes whose texts a model reads and answers with a text, and a body with a text."""
READS: dict[str, Callable[[str], Body]] = {
    **dict.fromkeys(("/v1/embeddings", "/embeddings", "/api/v0/embeddings"), embedding),
    "/api/embed": embedding,
    "/api/embeddings": lambda text: {"model": "vectors", "prompt": text},
    "/embedding": partial(embedding, field="content"),
    **dict.fromkeys(("/v1/rerank", "/v1/reranking", "/reranking", "/v2/rerank"), ranking),
    "/rerank": partial(ranking, field="texts"),
    **dict.fromkeys(("/v1/audio/speech", "/audio/speech"), spoken),
}
"""Routes whose texts a model reads and answers with numbers or audio, and a body with a text."""
NO_TEXT = {
    "no model reads the text, which is tokenized, counted or rendered": """
        /tokenize /v1/tokenize /detokenize /v1/detokenize /apply-template /cache/explain
        /v1/messages/count_tokens /messages/count_tokens /v1/responses/input_tokens /responses/input_tokens
        /v1/chat/completions/input_tokens /chat/completions/input_tokens
    """,
    "the text is stored, and checked when a model reads it": "/v1/agents /v1/agents/{agent_id}",
    "stored texts were checked when a model read or wrote them": """
        /v1/responses/{response_id} /v1/responses/{response_id}/cancel
        /v1/responses/{response_id}/input_items /v1/agents/{agent_id}/messages /v1/agents/{agent_id}/reset
    """,
    "requests name models, adapters, files or places only": """
        /v1/models /models /v1/models/{name:path} /library /fit /api/tags /api/ps /api/show /api/pull
        /api/v0/models /api/v0/models/{name:path} /api/v1/models
        /models/load /models/unload /models/pin /models/unpin /downloads /downloads/{repository:path}
        /library/hub
        /api/v1/models/load /api/v1/models/unload /api/v1/models/download
        /api/v1/models/download/status/{job_id} /v1/adapters /v1/adapters/{name} /v1/load_lora_adapter
        /v1/unload_lora_adapter /lora-adapters /props /tokenizer_info /v1/audio/voices /audio/voices
        /cache /cache/pin /cache/unpin /cache/drop /cache/clear /cache/gc /slots /slots/{slot}
    """,
    "texts are those of requests that it makes to other routes": "/v1/realtime /realtime",
    "requests have no text": """
        / /health /v1/health /healthz /livez /readyz /api/hello /load /version /api/version
        /openapi.json /requests /requests/{request_id} /stats /metrics
        /ui /ui/index.html /ui/page.js /ui/highlight-worker.js /ui/temml.min.js
    """,
    "operators change the server with it": """
        /admin/audit /admin/keys /admin/keys/{key_id} /admin/keys/{key_id}/rotate /admin/limits
        /admin/limits/{key_id} /admin/guardrails /admin/guardrails/test /admin/scheduler /admin/cache
    """,
}
"""Routes without a text that a model reads or writes, by the reason."""
TEXTS = WRITES | READS
ROUTES = {path: route for route in all_routes() for path in route.paths}
# No tiny model has the tokens for the one, and the other writes thousands.
UNANSWERED = {"/infill", "/v1/responses/compact"}
ANSWERED = sorted({route.path for route in ROUTES.values()} & {*TEXTS} - UNANSWERED)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    """A server for models of every purpose, with keys and audit log."""
    models = tmp_path_factory.mktemp("models")
    shutil.copytree(tiny_models.model("embedder"), models / "vectors")
    shutil.copytree(tiny_models.encoder("bert_scorer"), models / "bert_scorer")
    shutil.copytree(tiny_models.trained(SPEECH), models / SPEECH)
    shutil.copytree(tiny_models.speech("soprano"), models / "voice")
    options = ("--models-dir", str(models), "--admin-key", ADMIN["x-api-key"], "--audit")
    with hosting(tiny_models.model("endless"), *options) as running:
        yield running


@pytest.fixture(scope="module")
def sound() -> bytes:
    return speech_audio(SPOKEN_SENTENCES[0])


class Client:
    """A new key: its limits and audit records are its own."""

    def __init__(self, server: HostedServer, sound: bytes) -> None:
        self._server = server
        self._sound = sound
        scopes = ["generate", "embed", "audio"]
        new = {"name": uuid.uuid4().hex, "scopes": scopes, "limits": {"all_models": LIMITS}}
        key = httpx.post(f"{server.url}/admin/keys", json=new, headers=ADMIN).json()
        self.name, self._headers = key["id"], {"x-api-key": key["key"]}

    def send(self, path: str, text: str, **fields: str) -> httpx.Response:
        """Send a text to a route."""
        body = TEXTS[path](text) | fields
        if "{agent_id}" in path:
            made = self._post("/v1/agents", json={"model": "tiny"}).json()
            return self._post(path.replace("{agent_id}", made["id"]), json=body)
        if TEXTS[path] is speech:
            return self._post(path, data=body, files={"file": self._sound})
        return self._post(path, json=body)

    def audited(self, request: httpx.Response) -> dict[str, Any]:
        """Return the audit record of a request; its limits are settled then."""
        query = f"{self._server.url}/admin/audit?key={self.name}&limit=5"
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            records = httpx.get(query, headers=ADMIN).json()["records"]
            name = request.headers["x-request-id"]
            found[:] = [record for record in records if record["request_id"] == name]
            return bool(found)

        wait_for(is_there, seconds=20)
        return found[0]

    def _post(self, path: str, **body: Any) -> httpx.Response:
        return httpx.post(self._server.url + path, headers=self._headers, timeout=120, **body)


@pytest.fixture
def client(server: HostedServer, sound: bytes) -> Client:
    return Client(server, sound)


def set_rules(server: HostedServer, **rules: Any) -> None:
    assert httpx.put(f"{server.url}/admin/guardrails", json=rules, headers=ADMIN).is_success


def remaining(answer: httpx.Response, what: str) -> int:
    """Return what the limits leave of requests or tokens."""
    names = (f"x-ratelimit-remaining-{what}", f"anthropic-ratelimit-{what}-remaining")
    (left,) = (int(answer.headers[name]) for name in names if name in answer.headers)
    return left


def error_of(path: str, answer: httpx.Response) -> Any:
    """Return the error of a refused text in the route's dialect."""
    render = ROUTES[path].render_error or openai_error
    message = "the prompt has text that this server does not accept"
    body = render(GuardrailMatched(message), request_id=answer.headers["x-request-id"])
    return body.status, json.loads(body.body)


def prompt_tokens(answer: Any) -> int | None:
    """Return the number of prompt tokens that an answer reports."""
    match answer:
        case {"usage": {"prompt_tokens": int(number)} | {"input_tokens": int(number)}}:
            return number
        case {"meta": {"billed_units": {"input_tokens": int(number)}}}:
            return number
        case {"prompt_eval_count": int(number)} | {"tokens_evaluated": int(number)}:
            return number
        case {"meta_info": {"prompt_tokens": int(number)}} | {"stats": {"input_tokens": int(number)}}:
            return number
    return None


def test_every_route_is_in_this_table() -> None:
    without = {path: reason for reason, paths in NO_TEXT.items() for path in paths.split()}
    for path in ROUTES:
        assert (path in TEXTS) + (path in without) == 1, (
            f"{path} must be in one of the tables above: WRITES or READS with a body that has a given text "
            "(the texts then pass `InferenceService`, which checks them), or NO_TEXT with the reason"
        )
    assert {*TEXTS, *without} == {*ROUTES}


@pytest.mark.parametrize("path", sorted(TEXTS))
def test_blocked_word_is_refused_in_the_dialect_of_the_route(
    server: HostedServer, client: Client, path: str
) -> None:
    set_rules(server, blocklist=[WORD], apply_to=["input"])
    refused = client.send(path, BLOCKED)
    assert (refused.status_code, refused.json()) == error_of(path, refused)
    record = client.audited(refused)
    model = "bert_scorer" if TEXTS[path] is ranking else record["model"]
    assert (record["guardrail"], record["status"], record["model"]) == ("refused", 400, model)
    assert record["error"] == "content_filter"
    assert remaining(refused, "requests") == LIMITS["requests_per_minute"] - 1


@pytest.mark.parametrize("path", ANSWERED)
def test_tokens_are_those_of_answer_audit_and_limits(server: HostedServer, client: Client, path: str) -> None:
    set_rules(server)
    first = client.send(path, ALLOWED)
    assert first.is_success, first.text
    record = client.audited(first)
    second = client.send(path, ALLOWED)

    spent = record["computed_tokens"] + record.get("completion_tokens", 0)
    assert remaining(first, "tokens") - remaining(second, "tokens") == spent > 0
    if TEXTS[path] is not spoken:
        assert prompt_tokens(first.json()) in (record["prompt_tokens"], None)
    assert [len(digest) for digest in record["prompt_sha256"]] == [64]


@pytest.mark.parametrize("path", sorted({*WRITES} - {"/infill"}))
def test_written_text_is_refused(server: HostedServer, client: Client, path: str) -> None:
    set_rules(server, regex=["[ -~]"], apply_to=["output"])
    answer = client.send(path, ALLOWED)
    assert client.audited(answer)["guardrail"] == "refused"


@pytest.mark.parametrize(("path", "field"), [("/v1/embeddings", "input"), ("/embedding", "content")])
def test_token_ids_are_refused_while_there_are_rules(
    server: HostedServer, client: Client, path: str, field: str
) -> None:
    body = {"model": "vectors", field: [[5, 6, 7]]}
    set_rules(server, blocklist=[WORD], apply_to=["output"])
    assert client._post(path, json=body).is_success
    set_rules(server, blocklist=[WORD])
    refused = client._post(path, json=body)
    assert (refused.status_code, "cannot check token ids" in refused.text) == (400, True)


def test_redacted_text_is_embedded(server: HostedServer, client: Client) -> None:
    set_rules(server)
    body = {"model": "vectors", "input": [f"tell {WORD} now", "tell [redacted] now"]}
    whole, redacted = (each["embedding"] for each in client._post("/v1/embeddings", json=body).json()["data"])
    set_rules(server, blocklist=[WORD], action="redact")
    one, other = (each["embedding"] for each in client._post("/v1/embeddings", json=body).json()["data"])
    assert one == other == pytest.approx(redacted, abs=1e-6)
    assert one != pytest.approx(whole, abs=1e-3)


def test_transcribed_text_is_redacted_or_refused(server: HostedServer, client: Client) -> None:
    path, word = "/v1/audio/transcriptions", "open"
    set_rules(server, blocklist=[word], action="redact")
    whole = client.send(path, "", response_format="verbose_json").json()
    assert whole["text"] == "please [redacted] the window"
    assert [segment["tokens"] for segment in whole["segments"]] == [[]]
    set_rules(server, blocklist=[word])
    refused = client.send(path, "", stream="true")
    assert refused.json()["error"]["code"] == "content_filter"
    assert word not in refused.text

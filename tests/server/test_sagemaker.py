"""SageMaker's routes, /ping and /invocations, as in vLLM."""

import shutil
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests import tiny_models

from .hosted import HostedServer, hosting

CHAT = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 4, "temperature": 0}


@pytest.fixture(scope="module")
def model_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    """A server for `endless`, which chats, `vectors`, which embeds, and `bert_scorer`."""
    models = tmp_path_factory.mktemp("models")
    shutil.copytree(tiny_models.model("endless"), models / "endless")
    shutil.copytree(tiny_models.model("embedder"), models / "vectors")
    shutil.copytree(tiny_models.encoder("bert_scorer"), models / "bert_scorer")
    with hosting(None, "--model", str(models / "endless"), "--models-dir", str(models)) as running:
        yield running


def invoke(server: HostedServer, body: dict[str, Any], **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(f"{server.url}/invocations", json=body, headers=named, timeout=120)


@pytest.mark.parametrize(
    ("body", "path", "model"),
    [
        (CHAT, "/v1/chat/completions", "endless"),
        ({"prompt": "a", "max_tokens": 3, "temperature": 0}, "/v1/completions", "endless"),
        ({"input": "Bread."}, "/v1/embeddings", "vectors"),
        ({"query": "who", "documents": ["bread"]}, "/v1/rerank", "bert_scorer"),
        ({"text_1": "who", "text_2": ["bread"]}, "/v1/score", "bert_scorer"),
    ],
)
def test_body_is_answered_as_by_its_own_route(
    model_server: HostedServer, body: dict[str, Any], path: str, model: str
) -> None:
    own = httpx.post(f"{model_server.url}{path}", json={"model": model, **body}, timeout=120).json()
    for invocation in ({"model": model, **body}, body, {"model": None, **body}):
        answer = invoke(model_server, invocation)
        assert (answer.status_code, answer.json()["model"]) == (200, model)
        assert answer.json()["usage"] | {"prompt_tokens_details": None} == own["usage"] | {
            "prompt_tokens_details": None
        }


def test_invocations_stream(model_server: HostedServer) -> None:
    answer = invoke(model_server, {**CHAT, "stream": True})
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("body", "param"),
    [({}, None), ({"model": "endless", "instances": []}, None), ({**CHAT, "max_tokens": 0.5}, "max_tokens")],
)
def test_invalid_invocations_are_refused(
    model_server: HostedServer, body: dict[str, Any], param: str | None
) -> None:
    answer = invoke(model_server, body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("header", ["x-amzn-sagemaker-adapter-identifier", "x-amzn-sagemaker-session-id"])
def test_options_of_sagemaker_are_refused_by_name(model_server: HostedServer, header: str) -> None:
    answer = invoke(model_server, CHAT, **{header: "NEW_SESSION"})
    assert (answer.status_code, header in answer.json()["error"]["message"]) == (400, True)


def test_ping_answers_get_and_post(model_server: HostedServer) -> None:
    answers = [httpx.request(method, f"{model_server.url}/ping") for method in ("GET", "POST", "HEAD")]
    assert [answer.status_code for answer in answers] == [200, 200, 200]

"""Encoder embeddings over HTTP, with their tokenizers and prompts."""

import operator
import shutil
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests import tiny_models

from .hosted import HostedServer, hosting
from .long_jobs import check_chat_continues_beside

TEXTS = [
    "The ferry leaves at noon.",
    "Bread.",
    "A much longer text about mountains, winter, maps and warm clothes.",
]


@pytest.fixture(scope="module")
def model_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    """A server for every kind of encoder, and a chat model.

    By their names, and `endless`, which chats.
    """
    models = tmp_path_factory.mktemp("models")
    for name in (*tiny_models.ENCODER_NAMES, *tiny_models.CROSS_ENCODER_NAMES):
        shutil.copytree(tiny_models.encoder(name), models / name)
    with hosting(
        None, "--model", str(tiny_models.model("endless")), "--name", "endless", "--models-dir", str(models)
    ) as running:
        yield running


def embed(model_server: HostedServer, model: str, texts: str | list[str], **more: Any) -> list[list[float]]:
    answer = httpx.post(
        f"{model_server.url}/v1/embeddings", json={"model": model, "input": texts, **more}, timeout=120
    )
    assert answer.status_code == 200, answer.text
    return [entry["embedding"] for entry in answer.json()["data"]]


@pytest.mark.parametrize("name", tiny_models.ENCODER_NAMES)
def test_concurrent_requests_get_distinct_vectors(model_server: HostedServer, name: str) -> None:
    together = embed(model_server, name, TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        assert embed(model_server, name, text)[0] == pytest.approx(vector, abs=1e-5)
    assert all(sum(map(operator.mul, together[0], other)) < 0.99 for other in together[1:])


def test_tokenizer_truncation_and_padding_are_ignored(model_server: HostedServer) -> None:
    long, longer = embed(model_server, "bert", ["the " * 20 + "who", "the " * 20 + "what"])
    assert sum(map(operator.mul, long, longer)) < 0.9999
    assert embed(model_server, "bert", "BREAD and Butter")[0] == pytest.approx(
        embed(model_server, "bert", "bread and butter")[0], abs=1e-6
    )


def test_prompt_name_prepends_the_models_prompt(model_server: HostedServer) -> None:
    named = embed(model_server, "embeddinggemma", TEXTS, prompt_name="query")
    written = embed(
        model_server, "embeddinggemma", [f"task: search result | query: {text}" for text in TEXTS]
    )
    assert named == [pytest.approx(vector, abs=1e-5) for vector in written]


def test_truncated_text_keeps_its_end_token(model_server: HostedServer) -> None:
    cut, other = embed(
        model_server, "xlm_roberta", ["the " * 900 + "sea", "the " * 900 + "mountain"], truncate=True
    )
    assert cut == pytest.approx(other, abs=1e-6)
    answer = httpx.post(
        f"{model_server.url}/v1/embeddings",
        json={"model": "xlm_roberta", "input": "the " * 900, "truncate": True},
    )
    assert answer.json()["usage"]["prompt_tokens"] == 400


@pytest.mark.parametrize("name", tiny_models.CROSS_ENCODER_NAMES)
def test_cross_encoder_scores_each_document_with_the_query(model_server: HostedServer, name: str) -> None:
    def scores(documents: list[str]) -> dict[str, float]:
        body = {"model": name, "query": "When does the ferry leave?", "documents": documents}
        answer = httpx.post(f"{model_server.url}/v1/rerank", json=body, timeout=120).json()
        return {result["document"]["text"]: result["relevance_score"] for result in answer["results"]}

    together = scores(TEXTS)
    assert list(together.values()) == sorted(together.values(), reverse=True)
    for text in TEXTS:
        assert scores([text])[text] == pytest.approx(together[text], abs=1e-5)
    assert len(set(together.values())) == len(TEXTS)


def test_cross_encoder_has_no_embeddings(model_server: HostedServer) -> None:
    body = {"model": "bert_scorer", "input": "Bread."}
    answer = httpx.post(f"{model_server.url}/v1/embeddings", json=body, timeout=60)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "model")
    assert "use /v1/rerank" in answer.json()["error"]["message"]
    chat = {"model": "bert_scorer", "messages": [{"role": "user", "content": "Bread."}]}
    refused = httpx.post(f"{model_server.url}/v1/chat/completions", json=chat, timeout=60)
    assert (refused.status_code, "to /v1/rerank" in refused.text) == (400, True)
    long = {"model": "bert_scorer", "query": "a", "documents": ["the " * 900]}
    assert "maximum" in httpx.post(f"{model_server.url}/v1/rerank", json=long, timeout=60).text


@pytest.mark.parametrize("name", tiny_models.CROSS_ENCODER_NAMES)
def test_cut_documents_are_scored_as_their_beginning(model_server: HostedServer, name: str) -> None:
    def answer(path: str, document: str, **fields: Any) -> Any:
        body = {"model": name, "query": "who", "documents": [document], **fields}
        return httpx.post(f"{model_server.url}{path}", json=body, timeout=60).json()

    whole = answer("/v2/rerank", "the who bread")
    cut = answer("/v2/rerank", "the who bread" + " the" * 900, max_tokens_per_doc=3)
    num_tokens = whole["usage"]["prompt_tokens"]
    kept = answer("/v2/rerank", "the who bread", max_tokens_per_doc=4096)
    assert kept == whole | {"id": kept["id"]}
    assert answer("/v2/rerank", "the " * 900)["usage"]["prompt_tokens"] == 400
    assert cut["usage"]["prompt_tokens"] <= num_tokens


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({"model": "bert", "input": "the " * 900}, "input", "maximum"),
        (
            {"model": "bert", "input": "a", "prompt_name": "query"},
            "prompt_name",
            "has no prompt 'query'; it has: none",
        ),
        (
            {"model": "xlm_roberta", "input": "a", "prompt_name": "task"},
            "prompt_name",
            "it has: passage, query",
        ),
        ({"model": "embeddinggemma", "input": "a", "dimensions": 49}, "dimensions", "makes vectors of 48"),
    ],
)
def test_invalid_inputs_are_refused_by_name(
    model_server: HostedServer, body: dict[str, Any], param: str, message: str
) -> None:
    answer = httpx.post(f"{model_server.url}/v1/embeddings", json=body, timeout=60)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert message in answer.json()["error"]["message"]


def test_model_list_has_dimensions_and_max_length(model_server: HostedServer) -> None:
    models = {
        model["id"]: model for model in httpx.get(f"{model_server.url}/v1/models", timeout=60).json()["data"]
    }
    listed = {
        name: [models[name][key] for key in ("kind", "dimensions", "max_model_len")]
        for name in tiny_models.ENCODER_NAMES
    }
    assert listed == {
        "bert": ["embeddings", 64, 400],
        "xlm_roberta": ["embeddings", 64, 400],
        "modernbert": ["embeddings", 64, 400],
        "embeddinggemma": ["embeddings", 48, 400],
        "llama_bidirec": ["embeddings", 64, 400],
    }
    assert models["endless"]["dimensions"] is None


def test_chat_continues_while_long_texts_are_embedded(model_server: HostedServer) -> None:
    body = {"model": "bert", "input": ["the " * 350] * 400}
    check_chat_continues_beside(
        model_server, "bert", lambda: httpx.post(f"{model_server.url}/v1/embeddings", json=body)
    )


def test_ollama_lists_what_each_model_can_do(model_server: HostedServer) -> None:
    def capabilities(name: str) -> list[str]:
        shown: dict[str, list[str]] = httpx.post(
            f"{model_server.url}/api/show", json={"model": name}, timeout=120
        ).json()
        return shown["capabilities"]

    assert (capabilities("bert"), capabilities("bert_scorer")) == (["embedding"], [])


def test_reranking_of_voyage_has_its_list(model_server: HostedServer) -> None:
    body = {"model": "bert_scorer", "query": "who", "documents": ["bread", "the ferry", "snow"]}
    url = f"{model_server.url}/v1/rerank"
    ranked = httpx.post(url, json=body, timeout=120).json()["results"]
    answer = httpx.post(url, json=body | {"top_k": 2, "truncation": True}, timeout=120).json()
    assert (answer["object"], [set(each) for each in answer["data"]]) == (
        "list",
        [{"index", "relevance_score"}] * 2,
    )
    for given, wanted in zip(answer["data"], ranked[:2], strict=True):
        assert given["index"] == wanted["index"]
        assert given["relevance_score"] == pytest.approx(wanted["relevance_score"], rel=1e-4)
    named = httpx.post(url, json=body | {"top_k": 1, "return_documents": True}, timeout=120).json()
    assert named["data"][0]["document"] == body["documents"][ranked[0]["index"]]

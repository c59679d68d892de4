"""Embeddings over HTTP with OpenAI's SDK, beside a chat model."""

import math
import operator
import shutil
from collections.abc import Iterator
from functools import partial
from typing import Any

import anthropic
import httpx
import openai
import pytest
from openai.types import CreateEmbeddingResponse

from tests import tiny_models

from .hosted import HostedServer, hosting
from .long_jobs import check_chat_continues_beside, check_disconnect_frees

MODEL = "vectors"
CUT = "truncate_prompt_tokens"
TEXTS = [
    "The ferry leaves at noon.",
    "Bread.",
    "A much longer text about mountains, winter, maps and warm clothes.",
]


@pytest.fixture(scope="module")
def model_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    """A server for a model that chats, `endless`, and one that embeds."""
    directory = shutil.copytree(tiny_models.model("embedder"), tmp_path_factory.mktemp("models") / MODEL)
    with hosting(
        None, "--model", str(tiny_models.model("endless")), "--name", "endless", "--model", str(directory)
    ) as running:
        yield running


@pytest.fixture(scope="module")
def sdk(model_server: HostedServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{model_server.url}/v1", api_key="unused", max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def embed(
    client: openai.OpenAI,
    texts: str | list[str] | list[int] | list[list[int]],
    dimensions: int | openai.Omit = openai.omit,
    extra_body: dict[str, Any] | None = None,
) -> CreateEmbeddingResponse:
    return client.embeddings.create(
        model=MODEL, input=texts, dimensions=dimensions, encoding_format="float", extra_body=extra_body
    )


def test_concurrent_requests_get_their_own_vectors(sdk: openai.OpenAI) -> None:
    together = embed(sdk, TEXTS)
    assert [entry.index for entry in together.data] == [0, 1, 2]
    assert together.model == MODEL
    num_tokens = 0
    for text, entry in zip(TEXTS, together.data, strict=True):
        alone = embed(sdk, text)
        assert alone.data[0].embedding == pytest.approx(entry.embedding, abs=1e-5)
        assert math.hypot(*entry.embedding) == pytest.approx(1, abs=1e-5)
        num_tokens += alone.usage.prompt_tokens
    assert together.usage.prompt_tokens == together.usage.total_tokens == num_tokens


def test_floats_and_base64_are_equal(model_server: HostedServer, sdk: openai.OpenAI) -> None:
    # Left alone the SDK asks for base64 and unpacks it, but where it validates strictly it does so before it
    # unpacks.
    with openai.OpenAI(base_url=f"{model_server.url}/v1", api_key="unused", max_retries=0) as client:
        unpacked = client.embeddings.create(model=MODEL, input=TEXTS[0])
    numbers = embed(sdk, TEXTS[0])
    assert unpacked.data[0].embedding == pytest.approx(numbers.data[0].embedding, abs=1e-7)


def test_dimensions_shortens_and_normalizes_vectors(sdk: openai.OpenAI) -> None:
    (whole,) = embed(sdk, TEXTS[0]).data
    (short,) = embed(sdk, TEXTS[0], dimensions=8).data
    length = math.hypot(*whole.embedding[:8])
    assert short.embedding == pytest.approx([number / length for number in whole.embedding[:8]], abs=1e-6)


def test_token_ids_are_embedded_unchanged(sdk: openai.OpenAI) -> None:
    (first, second) = embed(sdk, [[5, 6, 7], [8]]).data
    (alone,) = embed(sdk, [5, 6, 7]).data
    assert alone.embedding == pytest.approx(first.embedding, abs=1e-5)
    assert sum(map(operator.mul, first.embedding, second.embedding)) < 0.99


def test_truncate_prompt_tokens_limits_each_input(sdk: openai.OpenAI) -> None:
    cut = embed(sdk, [[5, 6, 7], [8]], extra_body={CUT: 2})
    short = embed(sdk, [[5, 6], [8]])
    assert cut.usage.prompt_tokens == short.usage.prompt_tokens == 3
    assert cut.data[0].embedding == pytest.approx(short.data[0].embedding, abs=1e-5)
    fitting = embed(sdk, "word " * 3000, extra_body={CUT: -1})
    assert fitting.usage.prompt_tokens == 1024


@pytest.mark.parametrize(
    ("sent", "param", "code", "message"),
    [
        ({"input": "word " * 3000}, "input", "context_length_exceeded", "> 1024 maximum"),
        ({"input": ["a"] * 3 + ["word " * 3000]}, "input", "context_length_exceeded", "> 1024 maximum"),
        ({"input": [[1], [99_999]]}, "input[1]", None, "has token 99999"),
        ({"input": "a", "dimensions": 65}, "dimensions", None, "makes vectors of 64"),
        ({"input": [[1] * 1000] * 301}, "input", None, "a request may have 300000"),
        (
            {"input": "a", "extra_body": {"truncate_prompt_tokens": 1025}},
            "truncate_prompt_tokens",
            None,
            "1 to 1024",
        ),
        ({"input": "a", "model": "endless"}, "model", "model_not_supported", f"such as '{MODEL}'"),
    ],
)
def test_invalid_inputs_are_refused_by_name(
    sdk: openai.OpenAI, sent: dict[str, Any], param: str, code: str | None, message: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=message) as raised:
        sdk.embeddings.create(**{"model": MODEL, **sent})
    assert (raised.value.param, raised.value.code) == (param, code)


def test_unknown_model_returns_404(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        sdk.embeddings.create(model="missing", input="a")


def test_embedding_model_refuses_chat_and_names_its_route(
    model_server: HostedServer, sdk: openai.OpenAI
) -> None:
    with pytest.raises(openai.BadRequestError, match="send texts to /v1/embeddings") as raised:
        sdk.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello!"}])
    assert (raised.value.param, raised.value.code) == ("model", "model_not_supported")
    with pytest.raises(openai.BadRequestError, match="send texts to /v1/embeddings"):
        sdk.completions.create(model=MODEL, prompt="Hello!")
    with (
        anthropic.Anthropic(base_url=model_server.url, api_key="unused", max_retries=0) as client,
        pytest.raises(anthropic.BadRequestError, match="send texts to /v1/embeddings"),
    ):
        client.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "Hello!"}])


def test_model_list_names_embedding_models(model_server: HostedServer) -> None:
    models = {
        model["id"]: model for model in httpx.get(f"{model_server.url}/v1/models", timeout=60).json()["data"]
    }
    assert (models[MODEL]["kind"], models[MODEL]["max_model_len"]) == ("embeddings", 1024)
    assert models["endless"]["kind"] == "text"


def test_chat_continues_while_texts_are_embedded(model_server: HostedServer) -> None:
    check_chat_continues_beside(model_server, MODEL, lambda: embed_for_long(model_server, 60))


def test_disconnect_cancels_the_work(model_server: HostedServer) -> None:
    check_disconnect_frees(model_server, MODEL, partial(embed_for_long, model_server))


def embed_for_long(server: HostedServer, seconds: float) -> httpx.Response:
    body = {"model": MODEL, "input": [[1] * 1000] * 280}
    return httpx.post(f"{server.url}/v1/embeddings", json=body, timeout=seconds)


def test_vectors_of_llama_cpp_are_those_of_the_embeddings_route(model_server: HostedServer) -> None:
    named = httpx.post(f"{model_server.url}/v1/embeddings", json={"model": MODEL, "input": TEXTS}, timeout=60)
    vectors = [item["embedding"] for item in named.json()["data"]]
    url = f"{model_server.url}/embedding"
    found = httpx.post(url, json={"content": TEXTS}, timeout=60).json()
    assert [entry["index"] for entry in found] == [0, 1, 2]
    for entry, vector in zip(found, vectors, strict=True):
        assert entry["embedding"][0] == pytest.approx(vector, abs=1e-4)
    refused = httpx.post(url, json={"content": ["a", ""]}, timeout=60)
    assert (refused.status_code, "content[1] is empty" in refused.text) == (400, True)
    refused = httpx.post(url, json={"content": ["a"] * 2049}, timeout=60)
    assert (refused.status_code, "2049 texts" in refused.text) == (400, True)


def test_errors_have_the_details_that_voyages_client_reads(model_server: HostedServer) -> None:
    for route in ("embeddings", "rerank"):
        body = {"model": MODEL, "input": [], "query": "", "documents": ["a"], "truncation": True}
        shared = httpx.post(f"{model_server.url}/v1/{route}", json=body, timeout=60).json()
        assert shared["detail"] == shared["error"]["message"]


def test_ollamas_embeddings_have_durations(model_server: HostedServer) -> None:
    answer = httpx.post(f"{model_server.url}/api/embed", json={"model": MODEL, "input": TEXTS}, timeout=60)
    assert (len(answer.json()["embeddings"]), answer.json()["load_duration"]) == (3, 0)
    assert answer.json()["total_duration"] > 0


def rerank(server: HostedServer, path: str, **fields: Any) -> httpx.Response:
    body = {"model": MODEL, "query": TEXTS[1], "documents": TEXTS, **fields}
    return httpx.post(f"{server.url}{path}", json=body, timeout=60)


def test_documents_are_ordered_by_the_cosine_of_their_vectors(
    model_server: HostedServer, sdk: openai.OpenAI
) -> None:
    answer = rerank(model_server, "/v1/rerank").json()
    vectors = [
        item.embedding
        for item in sdk.embeddings.create(model=MODEL, input=TEXTS, encoding_format="float").data
    ]
    for result in answer["results"]:
        one, other = vectors[1], vectors[result["index"]]
        cosine = sum(map(operator.mul, one, other)) / (math.hypot(*one) * math.hypot(*other))
        assert result["relevance_score"] == pytest.approx(cosine, abs=1e-4)
    scores = [result["relevance_score"] for result in answer["results"]]
    assert (answer["results"][0]["index"], scores) == (1, sorted(scores, reverse=True))
    assert answer["results"][0]["document"] == {"text": TEXTS[1]}


def test_texts_are_scored_as_in_text_embeddings_inference(model_server: HostedServer) -> None:
    ordered = rerank(model_server, "/v1/rerank").json()["results"]
    asked = {"documents": None, "texts": TEXTS}
    scored = rerank(model_server, "/rerank", **asked).json()
    repeated = rerank(model_server, "/rerank", **asked, return_text=True, top_n=1).json()
    assert [entry["index"] for entry in scored] == [result["index"] for result in ordered]
    assert [set(entry) for entry in scored] == [{"index", "score"}] * 3
    assert repeated == [scored[0] | {"text": TEXTS[1]}]


def test_requests_without_a_model_are_scored_by_the_embedding_model(model_server: HostedServer) -> None:
    named = rerank(model_server, "/rerank").json()
    asked = {"query": TEXTS[1], "documents": TEXTS}
    unnamed = httpx.post(f"{model_server.url}/reranking", json=asked, timeout=60).json()
    order = [result["index"] for result in named["results"]]
    assert ([result["index"] for result in unnamed["results"]], unnamed["model"]) == (order, MODEL)
    texts = {"query": TEXTS[1], "texts": TEXTS}
    scored = httpx.post(f"{model_server.url}/rerank", json=texts, timeout=60).json()
    assert [entry["index"] for entry in scored] == order


def test_documents_are_cut_to_max_tokens_per_doc(model_server: HostedServer) -> None:
    long = "the ferry " * 900
    cut = rerank(model_server, "/v1/rerank", documents=[long], max_tokens_per_doc=20)
    query_twice = rerank(model_server, "/v1/rerank", documents=[TEXTS[1]]).json()["usage"]["prompt_tokens"]
    assert cut.json()["usage"]["prompt_tokens"] == query_twice // 2 + 20
    assert rerank(model_server, "/v1/rerank", documents=[long]).status_code == 400
    assert rerank(model_server, "/v1/rerank", documents=[long], truncate=True).status_code == 200
    assert rerank(model_server, "/v2/rerank", documents=[long]).status_code == 200


def test_coheres_route_leaves_out_documents(model_server: HostedServer) -> None:
    answer = rerank(model_server, "/v2/rerank", top_n=2, documents=[{"text": text} for text in TEXTS]).json()
    assert [set(result) for result in answer["results"]] == [{"index", "relevance_score"}] * 2
    refused = rerank(model_server, "/v2/rerank", query=5)
    assert (refused.status_code, set(refused.json())) == (400, {"id", "message"})
    assert refused.json()["id"] == refused.headers["x-request-id"]


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"documents": []}, 400, "documents"),
        ({"documents": ["a", ""]}, 400, "documents[1]"),
        ({"documents": "a"}, 400, "documents"),
        ({"documents": None}, 400, "documents"),
        ({"texts": ["a"]}, 400, "documents"),
        ({"documents": None, "texts": ["a", ""]}, 400, "texts[1]"),
        ({"top_n": 0}, 400, "top_n"),
        ({"max_tokens_per_doc": 0}, 400, "max_tokens_per_doc"),
        ({"query": 5}, 400, "query"),
        ({"model": "endless"}, 400, "model"),
        ({"model": "nothing"}, 404, "model"),
    ],
)
def test_invalid_rerank_requests_are_refused(
    model_server: HostedServer, fields: dict[str, Any], status: int, param: str
) -> None:
    answer = rerank(model_server, "/v1/rerank", **fields)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)

"""Cohere's embeddings beside OpenAI's."""

import shutil
from array import array
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests import tiny_models

from .hosted import HostedServer, hosting

TEXTS = ["The ferry leaves at noon.", "Bread."]


@pytest.fixture(scope="module")
def model_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    """A server for `vectors`, and `gemma`, which has prompts by purpose."""
    models = tmp_path_factory.mktemp("models")
    shutil.copytree(tiny_models.model("embedder"), models / "vectors")
    shutil.copytree(tiny_models.encoder("embeddinggemma"), models / "gemma")
    with hosting(None, "--model", str(models / "vectors"), "--models-dir", str(models)) as running:
        yield running


def embed(server: HostedServer, path: str = "/v2/embed", **fields: Any) -> httpx.Response:
    body = {"model": "vectors", "texts": TEXTS, "input_type": "search_document", **fields}
    return httpx.post(f"{server.url}{path}", json=body, timeout=120)


def openai_vectors(server: HostedServer, **fields: Any) -> list[list[float]]:
    body = {"model": "vectors", "input": TEXTS, **fields}
    answer = httpx.post(f"{server.url}/v1/embeddings", json=body, timeout=120).json()
    return [each["embedding"] for each in answer["data"]]


def test_vectors_are_those_of_the_embeddings_route_in_every_type(model_server: HostedServer) -> None:
    wanted = openai_vectors(model_server)
    types = ["float", "base64", "binary", "ubinary"]
    answer = embed(model_server, embedding_types=types).json()
    assert (answer["response_type"], answer["texts"]) == ("embeddings_by_type", TEXTS)
    vectors = answer["embeddings"]
    assert vectors["float"] == wanted
    assert [array("f", b64decode(packed)).tolist() for packed in vectors["base64"]] == wanted
    bits = [[int(number >= 0) for number in vector] for vector in wanted]
    unpacked = [[byte >> 7 - place & 1 for byte in row for place in range(8)] for row in vectors["ubinary"]]
    assert unpacked == bits
    assert [[byte + 128 for byte in row] for row in vectors["binary"]] == vectors["ubinary"]


def test_version_1_without_types_answers_with_a_list(model_server: HostedServer) -> None:
    plain = embed(model_server, "/v1/embed", input_type=None).json()
    typed = embed(model_server, "/v1/embed", embedding_types=["float"]).json()
    assert (plain["response_type"], plain["embeddings"]) == (
        "embeddings_floats",
        typed["embeddings"]["float"],
    )
    assert typed["response_type"] == "embeddings_by_type"


def test_inputs_dimensions_and_the_default_model_are_honored(model_server: HostedServer) -> None:
    inputs = [{"content": [{"type": "text", "text": text}]} for text in TEXTS]
    answer = embed(model_server, model=None, texts=None, inputs=inputs, output_dimension=16).json()
    assert answer["embeddings"]["float"] == openai_vectors(model_server, dimensions=16)


@pytest.mark.parametrize(("purpose", "prompt"), [("search_query", "query"), ("search_document", "document")])
def test_input_type_selects_the_models_prompt(model_server: HostedServer, purpose: str, prompt: str) -> None:
    answer = embed(model_server, model="gemma", input_type=purpose).json()
    assert answer["embeddings"]["float"] == openai_vectors(model_server, model="gemma", prompt_name=prompt)


def test_long_texts_are_cut_unless_that_is_turned_off(model_server: HostedServer) -> None:
    long = "the " * 3000
    assert embed(model_server, texts=[long]).status_code == 200
    assert "maximum" in embed(model_server, texts=[long], truncate="NONE").json()["message"]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"texts": []}, "texts is empty"),
        ({"texts": None}, "texts is missing"),
        ({"texts": None, "images": ["data:"]}, "images cannot be embedded here"),
        ({"embedding_types": ["int8"]}, "embedding_types[0] is 'int8'"),
        ({"embedding_types": ["binary"], "output_dimension": 12}, "set output_dimension"),
        ({"texts": ["a"] * 2049}, "a request may have 2048"),
        ({"truncate": "START"}, "truncate is 'START'"),
        ({"inputs": [{"content": []}]}, "inputs[0].content must be"),
    ],
)
def test_invalid_requests_have_an_error_in_coheres_shape(
    model_server: HostedServer, fields: dict[str, Any], complaint: str
) -> None:
    answer = embed(model_server, **fields)
    assert answer.status_code == 400
    assert complaint in answer.json()["message"]
    assert answer.json()["id"] == answer.headers["x-request-id"]

"""Embeddings bodies and answers."""

import json
from array import array
from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.ir import EmbeddingResult
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.openai.embeddings import parse_embeddings


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "input": "text", **fields}).encode()


@pytest.mark.parametrize(
    ("asked", "inputs"),
    [
        ("one text", ("one text",)),
        (["one", "two"], ("one", "two")),
        ([1, 2, 3], ((1, 2, 3),)),
        ([[1, 2], [3]], ((1, 2), (3,))),
    ],
)
def test_input_accepts_texts_and_token_ids(asked: Any, inputs: tuple[Any, ...]) -> None:
    request = parse_embeddings(body(input=asked, user="caller-1", dimensions=8))[0]
    assert (request.inputs, request.dimensions, request.prompt_name, request.may_cut) == (
        inputs,
        8,
        None,
        False,
    )


def test_prompt_name_and_truncate_are_passed_on() -> None:
    request = parse_embeddings(body(prompt_name="query", truncate=True))[0]
    assert (request.prompt_name, request.may_cut) == ("query", True)


def test_names_of_voyage_are_read() -> None:
    request = parse_embeddings(body(input_type="query", truncation=True, output_dimension=8))[0]
    assert (request.purpose, request.may_cut, request.dimensions) == ("query", True, 8)


@pytest.mark.parametrize(
    ("fields", "param", "complaint"),
    [
        ({"input": ""}, "input[0]", "is empty"),
        ({"input": []}, "input", "is empty"),
        ({"input": ["a", ""]}, "input[1]", "is empty"),
        ({"input": [[1], []]}, "input[1]", "is empty"),
        ({"input": ["a", 1]}, "input[1]", "a token id among texts"),
        ({"input": [-1]}, "input[0]", ">= 0"),
        ({"input": ["a"] * 2049}, "input", "a request may have 2048"),
        ({"input": None}, "input", "must be"),
        ({"encoding_format": "hex"}, "encoding_format", "'base64', 'float'"),
        ({"dimensions": 0}, "dimensions", ">= 1"),
        ({"input": [1, 2], "prompt_name": "query"}, "prompt_name", "input has token ids"),
        ({"prompt_name": ""}, "prompt_name", "length >= 1"),
        ({"truncate": "END"}, "truncate", "must be"),
        ({"output_dtype": "int8"}, "output_dtype", "'float'"),
        ({"model": ""}, "model", "length >= 1"),
    ],
)
def test_invalid_fields_are_refused_by_name(fields: dict[str, Any], param: str, complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint) as refusal:
        parse_embeddings(body(**fields))
    assert (refusal.value.param or "").startswith(param.split("[")[0])


@given(st.lists(st.lists(st.floats(-2, 2, width=32), min_size=3, max_size=3), min_size=1, max_size=4))
def test_floats_and_base64_are_the_same_vectors(vectors: list[list[float]]) -> None:
    result = EmbeddingResult(
        model="m", vectors=tuple(array("f", vector).tobytes() for vector in vectors), num_prompt_tokens=7
    )
    answers = []
    for encoding in ("float", "base64"):
        _, shape = parse_embeddings(body(encoding_format=encoding))
        answers.append(json.loads(shape.encode(result)))
    as_numbers, packed = answers
    assert [entry["embedding"] for entry in as_numbers["data"]] == vectors
    assert [array("f", b64decode(entry["embedding"])).tolist() for entry in packed["data"]] == vectors
    assert [entry["index"] for entry in packed["data"]] == list(range(len(vectors)))
    assert packed["usage"] == as_numbers["usage"] == {"prompt_tokens": 7, "total_tokens": 7}

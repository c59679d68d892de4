"""Integral floats where a field is an integer."""

import json
from typing import Any

import pytest

from mlxctl.ir import GenerationRequest
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols import (
    PROTOCOLS,
)

BODY = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


def parse_chat(**fields: Any) -> GenerationRequest:
    return PROTOCOLS["chat"].parse_alone(json.dumps(BODY | fields).encode())


def test_integral_floats_are_integers_in_every_protocol() -> None:
    chat = parse_chat(max_tokens=16.0, seed=1e9, top_k=-1.0)
    messages = PROTOCOLS["messages"].parse_alone(json.dumps(BODY | {"max_tokens": 16.0}).encode())
    ollama = PROTOCOLS["ollama_chat"].parse_alone(
        json.dumps(BODY | {"options": {"num_predict": 16.0, "temperature": 0}}).encode()
    )
    assert (chat.max_tokens, chat.sampling.seed, chat.sampling.top_k) == (16, 10**9, 0)
    assert (messages.max_tokens, ollama.max_tokens) == (16, 16)


def test_integral_floats_of_lists_and_of_responses_are_integers() -> None:
    many = parse_chat(stop_token_ids=[float(number) for number in range(100)], max_tokens=2.0)
    body = {"model": "tiny", "input": "hi", "max_output_tokens": 4.0, "top_logprobs": 2.0}
    parsed = PROTOCOLS["responses"].parse_alone(json.dumps(body).encode())
    assert (len(many.stop_token_ids), many.max_tokens) == (100, 2)
    assert (parsed.max_tokens, parsed.sampling.num_top_logprobs) == (4, 2)


def test_other_values_stay_as_they_are() -> None:
    """A schema's floats are not integers, and a string is no number."""
    tool = {
        "type": "function",
        "function": {"name": "f", "parameters": {"properties": {"a": {"default": 1.0}}}},
    }
    request = parse_chat(max_tokens=16.0, tools=[tool])
    assert "1.0" in str(request.tools[0].parameters)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": 1e300}, "max_tokens"),
        ({"max_tokens": "16"}, "max_tokens"),
        ({"max_tokens": 16.0, "seed": 0.5}, "seed"),
        ({"stop_token_ids": [1.0, 2.5]}, "stop_token_ids[1]"),
        ({"max_tokens": 0.0}, "max_tokens"),
        ({"stream": 1.0}, "stream"),
    ],
)
def test_other_numbers_are_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse_chat(**fields)
    assert raised.value.param == param

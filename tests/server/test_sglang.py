"""SGLang's `/generate`: texts and token ids, streams, log-probabilities, errors."""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx
import pytest

from .openapi_validation import check_answer
from .process import ServerProcess

MODEL = "mlxctl-demo"
TURN = "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"
GREEDY = {"temperature": 0, "max_new_tokens": 40}


@pytest.fixture(scope="module")
def client(demo_server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=demo_server.url, timeout=60) as opened:
        yield opened


def generate(client: httpx.Client, **fields: Any) -> Any:
    answer = client.post("/generate", json={"sampling_params": GREEDY, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_answer_is_that_of_completions(client: httpx.Client) -> None:
    body = {"model": MODEL, "prompt": TURN, "temperature": 0, "max_tokens": 40}
    wanted = client.post("/v1/completions", json=body).json()
    answer = generate(client, text=TURN)
    assert answer["text"] == wanted["choices"][0]["text"] != ""
    assert answer["meta_info"]["prompt_tokens"] == wanted["usage"]["prompt_tokens"]
    assert len(answer["output_ids"]) == answer["meta_info"]["completion_tokens"]
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": None}
    check_answer(answer, "post", "/generate")


def test_token_ids_are_a_prompt_too(client: httpx.Client) -> None:
    ids = client.post("/tokenize", json={"prompt": TURN, "add_special_tokens": False}).json()["tokens"]
    assert generate(client, input_ids=ids)["text"] == generate(client, text=TURN)["text"]


def test_stream_events_have_the_text_so_far(client: httpx.Client) -> None:
    whole = generate(client, text=TURN)
    answer = client.post("/generate", json={"text": TURN, "sampling_params": GREEDY, "stream": True})
    *events, end = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert end == "[DONE]"
    pieces = [json.loads(event) for event in events]
    texts = [piece["text"] for piece in pieces]
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert (pieces[-1]["text"], pieces[-1]["output_ids"]) == (whole["text"], whole["output_ids"])
    assert pieces[0]["meta_info"]["finish_reason"] is None


def test_lists_and_n_have_a_list_of_answers(client: httpx.Client) -> None:
    assert len(generate(client, text=[TURN, "Hello"])) == 2
    assert len(generate(client, text=TURN, sampling_params={**GREEDY, "n": 3})) == 3
    assert len(generate(client, text=["Hello"])) == 1


def test_length_stop_string_and_schema_end_the_answer(client: httpx.Client) -> None:
    cut = generate(client, text=TURN, sampling_params={"temperature": 0, "max_new_tokens": 3})
    assert cut["meta_info"]["finish_reason"] == {"type": "length", "length": 3}
    stopped = generate(client, text=TURN, sampling_params={**GREEDY, "stop": "greets"})
    assert stopped["meta_info"]["finish_reason"] == {"type": "stop", "matched": "greets"}
    schema = json.dumps({"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]})
    sampling = {"temperature": 0, "max_new_tokens": 60, "json_schema": schema}
    given = generate(client, text="Hello", sampling_params=sampling)
    assert json.loads(given["text"])["a"] in (1, 2)


def test_logprobs_are_triples(client: httpx.Client) -> None:
    answer = generate(client, text=TURN, return_logprob=True, top_logprobs_num=2)
    chosen = answer["meta_info"]["output_token_logprobs"]
    assert [token_id for _, token_id, _ in chosen] == answer["output_ids"][: len(chosen)]
    assert all(logprob <= 0 for logprob, _, _ in chosen)
    assert {len(top) for top in answer["meta_info"]["output_top_logprobs"]} == {2}


def test_model_info_names_the_default_model(client: httpx.Client) -> None:
    info = client.get("/get_model_info").json()
    assert (info["model_path"], info["is_generation"]) == (MODEL, True)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "text"),
        ({"text": "a", "input_ids": [1]}, "text"),
        ({"text": 5}, "text"),
        ({"input_ids": []}, "input_ids"),
        ({"text": "a", "sampling_params": {"temperature": -1}}, "sampling_params.temperature"),
        ({"text": "a", "sampling_params": {"json_schema": "{"}}, "sampling_params.json_schema"),
        ({"text": "a", "image_data": "x"}, "image_data"),
        ({"text": "a", "return_logprob": True, "logprob_start_len": 0}, "logprob_start_len"),
        ({"text": ["a"] * 129}, "text"),
    ],
)
def test_errors_name_the_field(client: httpx.Client, body: dict[str, Any], param: str) -> None:
    answer = client.post("/generate", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)

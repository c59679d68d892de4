"""Routes of llama.cpp and of vLLM's tokenizer, as their clients call them."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mlxctl.ir import Finished, Usage
from mlxctl.protocols.compat.llama_cpp.encode import LlamaEncoder, parse_completion

from .hosted import hosting

MODEL = "mlxctl-demo"
PROMPT = "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"
HELLO = [{"role": "user", "content": "Hello!"}]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with (
        hosting(None, "--no-any-model-name", MLXCTL_ENGINE_PREFILL_PASS_MAX_TOKENS="256") as running,
        httpx.Client(base_url=running.url, timeout=60) as opened,
    ):
        yield opened


def answer(client: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    found = client.post(path, json=body)
    assert found.status_code == 200, found.text
    return dict(found.json())


def answer_of_get(client: httpx.Client, path: str) -> dict[str, Any]:
    return dict(client.get(path).json())


def test_text_is_tokenized_in_both_shapes(client: httpx.Client) -> None:
    vllm = answer(client, "/tokenize", model=MODEL, prompt="Hello you", return_token_strs=True)
    llama = answer(client, "/tokenize", content="Hello you", with_pieces=True)
    assert (vllm["count"], "".join(vllm["token_strs"])) == (len(vllm["tokens"]), "Hello you")
    assert [token["id"] for token in llama["tokens"]] == vllm["tokens"]
    assert answer(client, "/tokenize", content="Hello you")["tokens"] == vllm["tokens"]


def test_conversation_is_tokenized_as_its_rendered_prompt(client: httpx.Client) -> None:
    rendered = answer(client, "/apply-template", messages=HELLO)["prompt"]
    tokens = answer(client, "/tokenize", model=MODEL, messages=HELLO)["tokens"]
    back = answer(client, "/detokenize", model=MODEL, tokens=tokens)
    assert rendered.startswith("<|im_start|>")
    assert back == {"prompt": rendered, "content": rendered}
    closed = answer(client, "/apply-template", messages=HELLO, add_generation_prompt=False)["prompt"]
    assert rendered.removeprefix(closed) == "<|im_start|>assistant\n"


def test_streamed_completion_equals_the_whole(client: httpx.Client) -> None:
    options = {"prompt": PROMPT, "n_predict": 40, "temperature": 0, "stop": ["!"]}
    whole = answer(client, "/completion", **options)
    streamed = client.post("/completion", json=options | {"stream": True}).text
    events = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: ")]
    assert "".join(event["content"] for event in events) == whole["content"]
    assert (events[-1]["stop"], events[-1]["tokens_predicted"]) == (True, whole["tokens_predicted"])
    assert (whole["stop_type"], whole["stopping_word"]) == ("word", "!")
    assert whole["timings"]["predicted_ms"] > 0


def test_probabilities_of_a_stream_equal_those_of_the_whole(client: httpx.Client) -> None:
    options = {"prompt": PROMPT, "n_predict": 4, "temperature": 0, "n_probs": 2, "return_tokens": True}
    whole = answer(client, "/completion", **options)
    streamed = client.post("/completion", json=options | {"stream": True}).text
    events = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: ")]
    tokens = whole["completion_probabilities"]
    assert [token for event in events[:-1] for token in event["completion_probabilities"]] == tokens
    assert [token["id"] for token in tokens] == whole["tokens"]
    assert "".join(token["token"] for token in tokens) == whole["content"]
    assert all(token["top_logprobs"][0]["id"] == token["id"] for token in tokens)


def test_list_of_prompts_is_answered_with_a_list(client: httpx.Client) -> None:
    options = {
        "n_predict": 3,
        "temperature": 0,
        "response_fields": ["content", "timings/predicted_n", "no/field"],
    }
    found = client.post("/completion", json=options | {"prompt": ["Hello", "Bye"]}).json()
    alone = [answer(client, "/completion", **options, prompt=prompt) for prompt in ("Hello", "Bye")]
    assert found == alone
    assert [set(entry) for entry in found] == [{"content", "timings/predicted_n"}] * 2


def test_settings_of_a_request_are_repeated(client: httpx.Client) -> None:
    options = {"prompt": PROMPT, "n_predict": 5, "seed": 7, "repeat_penalty": 1.5, "temperature": 0}
    free = answer(client, "/completion", **options)
    (first, *_) = answer(client, "/tokenize", content=free["content"])["tokens"]
    banned = answer(client, "/completion", **options, logit_bias=[[first, False]])
    settings = free["generation_settings"]
    assert (settings["seed"], settings["repeat_penalty"], settings["n_predict"]) == (7, 1.5, 5)
    assert banned["content"][:4] != free["content"][:4]
    assert free["has_new_line"] == ("\n" in free["content"])


def test_timings_count_draft_tokens() -> None:
    def timings(**counts: int) -> dict[str, Any]:
        usage = Usage(num_prompt_tokens=9, num_completion_tokens=5, **counts)
        _, shape = parse_completion(b'{"prompt": "a"}')
        event = LlamaEncoder(shape).on_event(Finished(reason="stop", usage=usage))
        return dict(json.loads(event.removeprefix(b"data: "))["timings"])

    drafted = timings(num_accepted_draft_tokens=3, num_rejected_draft_tokens=1)
    assert (drafted["draft_n"], drafted["draft_n_accepted"]) == (4, 3)
    assert "draft_n" not in timings()


def test_completion_obeys_its_schema(client: httpx.Client) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
    schema["additionalProperties"] = False
    found = answer(client, "/completion", prompt=PROMPT, n_predict=60, json_schema=schema, seed=-1)
    assert json.loads(found["content"])["a"] in (1, 2)


def test_slots_of_an_unlimited_queue_are_bounded(client: httpx.Client) -> None:
    before = client.get("/admin/scheduler").json()["max_queue"]
    client.patch("/admin/scheduler", json={"max_queue": 2**50}).raise_for_status()
    try:
        assert len(client.get("/slots").json()) == 1024 == answer_of_get(client, "/props")["total_slots"]
    finally:
        client.patch("/admin/scheduler", json={"max_queue": before}).raise_for_status()


def test_slots_show_the_open_requests(client: httpx.Client) -> None:
    idle = client.get("/slots").json()
    assert len(idle) == answer_of_get(client, "/props")["total_slots"]
    assert not any(slot["is_processing"] for slot in idle)
    body = {"prompt": PROMPT, "stream": True, "n_predict": 4000, "ignore_eos": True}
    with client.stream("POST", "/completion", json=body) as running:
        lines = running.iter_lines()
        next(lines)
        first, second, *_ = client.get("/slots", params={"fail_on_no_slot": "1"}).json()
    assert (first["is_processing"], second["is_processing"]) == (True, False)
    assert (first["model"], first["next_token"][0]["has_next_token"]) == (MODEL, True)
    assert first["n_prompt_tokens"] > 0


@pytest.mark.parametrize("path", ["/slots/0?action=save", "/slots/0?action=erase", "/lora-adapters"])
def test_what_requests_decide_here_is_refused(client: httpx.Client, path: str) -> None:
    refused = client.post(path, json=[])
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, 400)


def test_prompts_may_be_objects(client: httpx.Client) -> None:
    options = {"n_predict": 4, "temperature": 0}
    plain = answer(client, "/completion", prompt=PROMPT, **options)
    written = answer(client, "/completion", prompt={"prompt_string": PROMPT}, **options)
    both = client.post("/completion", json={"prompt": [PROMPT, {"prompt_string": PROMPT}], **options}).json()
    assert [each["content"] for each in (written, *both)] == [plain["content"]] * 3
    image = {"prompt_string": "a", "multimodal_data": ["aGk="]}
    refused = client.post("/completion", json={"prompt": ["a", image]})
    assert (refused.status_code, "prompt[1].multimodal_data" in refused.text) == (400, True)


def test_chats_are_counted_as_they_are_tokenized(client: httpx.Client) -> None:
    tokens = answer(client, "/tokenize", messages=HELLO)["tokens"]
    counted = answer(client, "/v1/chat/completions/input_tokens", messages=HELLO)
    assert counted == {"object": "response.input_tokens", "input_tokens": len(tokens)}


def test_properties_name_the_model_and_no_path(client: httpx.Client) -> None:
    found = client.get("/props").json()
    assert (found["model_path"], found["modalities"]) == (MODEL, {"vision": False, "audio": False})
    assert found["default_generation_settings"]["n_ctx"] > 0
    assert "im_start" in found["chat_template"]
    assert found["chat_template_caps"] == {"supports_tools": True, "supports_tool_calls": True}


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/tokenize", {"model": MODEL}, 400, "prompt"),
        ("/tokenize", {"prompt": "a", "content": "b"}, 400, "prompt"),
        ("/tokenize", {"prompt": 5}, 400, "prompt"),
        ("/tokenize", {"prompt": "a", "model": "nothing"}, 404, "model"),
        ("/tokenize", {"content": "one two " * 100_000}, 400, "prompt"),
        ("/detokenize", {"tokens": [10**6]}, 400, "tokens"),
        ("/detokenize", {"tokens": [-1]}, 400, "tokens[0]"),
        ("/detokenize", {"tokens": [2**40]}, 400, "tokens"),
    ],
)
def test_tokenizer_errors_name_the_field(
    client: httpx.Client, path: str, body: dict[str, Any], status: int, param: str
) -> None:
    found = client.post(path, json=body)
    assert (found.status_code, found.json()["error"]["param"]) == (status, param)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/apply-template", {"messages": []}, "messages"),
        ("/completion", {"prompt": "a", "n_probs": -1}, "n_probs"),
        ("/completion", {"prompt": "a", "post_sampling_probs": True}, "post_sampling_probs"),
        ("/completion", {"prompt": "a", "logit_bias": [["a", 1]]}, "logit_bias[0][0]"),
        ("/completion", {"prompt": ["a"] * 129}, "129 texts"),
        ("/completion", {"prompt": []}, "prompt"),
        ("/completion", {"prompt": {}}, "prompt"),
        ("/infill", {"input_prefix": "a", "input_suffix": "b"}, "input_suffix"),
        ("/infill", {"input_prefix": "a"}, "input_suffix"),
    ],
)
def test_errors_of_llama_cpp_routes_have_its_shape(
    client: httpx.Client, path: str, body: dict[str, Any], param: str
) -> None:
    found = client.post(path, json=body)
    error = found.json()["error"]
    assert (found.status_code, error["code"], error["type"]) == (400, 400, "invalid_request_error")
    assert param in error["message"]


LONG = [{"role": "user", "content": "Remember the words. " * 120}]


def chunks_of(client: httpx.Client, path: str, **body: Any) -> list[dict[str, Any]]:
    lines = client.post(path, json=body | {"stream": True}).text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def test_chat_has_timings_where_they_are_requested(client: httpx.Client) -> None:
    body = {"model": MODEL, "messages": HELLO, "temperature": 0, "timings_per_token": True}
    whole = answer(client, "/v1/chat/completions", **body)
    chunks = chunks_of(client, "/v1/chat/completions", **body)
    timings = [chunk["timings"] for chunk in chunks if "timings" in chunk]
    num_predicted = [each["predicted_n"] for each in timings]
    assert num_predicted == sorted(num_predicted)
    assert whole["timings"]["predicted_n"] == num_predicted[-1] == whole["usage"]["completion_tokens"]
    assert timings[-1]["predicted_per_second"] > 0


@pytest.mark.parametrize(
    ("path", "prompt"),
    [
        ("/v1/chat/completions", {"model": MODEL, "messages": LONG, "max_tokens": 2}),
        ("/completion", {"prompt": LONG[0]["content"], "max_tokens": 2}),
    ],
)
def test_stream_has_the_progress_of_the_prefill(
    client: httpx.Client, path: str, prompt: dict[str, Any]
) -> None:
    chunks = chunks_of(client, path, **prompt, return_progress=True, cache_mode="off")
    progress = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
    processed = [each["processed"] for each in progress]
    assert processed
    assert processed == sorted(processed)
    assert all(each["cache"] <= each["processed"] <= each["total"] for each in progress)
    assert processed[-1] == progress[-1]["total"]
    assert len(processed) > 1


def test_streamed_completion_has_timings_per_token(client: httpx.Client) -> None:
    events = chunks_of(client, "/completion", prompt=PROMPT, max_tokens=6, timings_per_token=True)
    assert [event["timings"]["predicted_n"] for event in events][-1] == 6
    assert events[-1]["generation_settings"]["n_predict"] == 6
    whole = answer(client, "/completion", prompt=PROMPT, max_tokens=6, temperature=0, return_tokens=True)
    streamed = chunks_of(client, "/completion", prompt=PROMPT, max_tokens=6, temperature=0)
    assert [token_id for event in streamed for token_id in event["tokens"]] == whole["tokens"]


def test_json_schema_constrains_a_chat(client: httpx.Client) -> None:
    schema = {"enum": ["red", "blue"]}
    body = {"model": MODEL, "messages": HELLO, "json_schema": schema, "think": False}
    text = answer(client, "/v1/chat/completions", **body)["choices"][0]["message"]["content"]
    assert json.loads(text) in schema["enum"]
    refused = client.post("/v1/chat/completions", json=body | {"response_format": {"type": "json_object"}})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "json_schema")

"""LM Studio's completions: OpenAI's answers with statistics, and its own chat."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from .process import ServerProcess

MODEL = "mlxctl-demo"
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Hello!"}], "temperature": 0}


@pytest.fixture(scope="module")
def client(demo_server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{demo_server.url}/api/v0", timeout=60) as opened:
        yield opened


@pytest.fixture(scope="module")
def native(client: httpx.Client) -> Iterator[httpx.Client]:
    url = str(client.base_url).removesuffix("v0/")
    with httpx.Client(base_url=f"{url}v1", timeout=60) as opened:
        yield opened


def ask(native: httpx.Client, text: Any, **fields: Any) -> httpx.Response:
    return native.post("/chat", json={"model": MODEL, "input": text, "temperature": 0, **fields})


def events(answer: httpx.Response) -> list[dict[str, Any]]:
    """Return the data of each event; it has the event's name."""
    assert answer.headers["content-type"] == "text/event-stream"
    found = []
    for block in answer.text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def text_of(body: dict[str, Any], kind: str = "message") -> str:
    return "".join(item["content"] for item in body["output"] if item["type"] == kind)


def check(answer: dict[str, Any], reason: str) -> None:
    """Check the fields that LM Studio adds."""
    assert answer["stats"]["stop_reason"] == reason
    assert answer["stats"]["generation_time"] > 0
    assert (answer["model_info"]["format"], answer["runtime"]["name"]) == ("mlx", "mlxctl")


def test_chat_has_statistics_whole_and_streamed(client: httpx.Client) -> None:
    whole = client.post("/chat/completions", json=CHAT).json()
    check(whole, "eosFound")
    lines = client.post("/chat/completions", json=CHAT | {"stream": True}).text.splitlines()
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    check(chunks[-1], "eosFound")
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    assert text == whole["choices"][0]["message"]["content"]


def test_completion_has_statistics(client: httpx.Client) -> None:
    answer = client.post("/completions", json={"model": MODEL, "prompt": "Hello", "max_tokens": 5}).json()
    check(answer, "maxPredictedTokensReached")


def test_answer_to_any_name_describes_the_model_that_answers(client: httpx.Client) -> None:
    answer = client.post("/chat/completions", json=CHAT | {"model": "nothing"}).json()
    assert answer["model"] == MODEL
    check(answer, "eosFound")


def test_native_stream_is_the_whole_answer_in_pieces(native: httpx.Client) -> None:
    whole = ask(native, "Hello!", reasoning="on").json()
    found = events(ask(native, "Hello!", reasoning="on", stream=True))
    kinds = [each["type"] for each in found]
    assert (kinds[0], kinds[-1]) == ("chat.start", "chat.end")
    wanted = ["prompt_processing.end", "reasoning.start", "reasoning.end", "message.start", "message.end"]
    assert [kind for kind in kinds if kind in wanted] == wanted
    for kind in ("reasoning", "message"):
        pieces = "".join(each["content"] for each in found if each["type"] == f"{kind}.delta")
        assert pieces == text_of(whole, kind) == text_of(found[-1]["result"], kind) != ""
    assert whole["stats"]["input_tokens"] == found[-1]["result"]["stats"]["input_tokens"]
    assert 0 < whole["stats"]["reasoning_output_tokens"] < whole["stats"]["total_output_tokens"]


@pytest.mark.parametrize("streams", [False, True])
def test_native_chat_continues_a_stored_answer(native: httpx.Client, streams: bool) -> None:
    answer = ask(native, "Remember the codeword 'apple'.", stream=streams)
    first = events(answer)[-1]["result"] if streams else answer.json()
    text = [{"type": "text", "content": "What is the codeword?"}]
    second = ask(native, text, previous_response_id=first["response_id"]).json()
    alone = ask(native, text).json()
    assert second["stats"]["input_tokens"] > alone["stats"]["input_tokens"] + 10
    assert "apple" in text_of(second)


def test_native_system_prompt_lasts_and_can_be_replaced(native: httpx.Client) -> None:
    first = ask(native, "Hello!", system_prompt="Be brief. " * 20).json()["response_id"]
    kept = ask(native, "Hi", previous_response_id=first).json()["stats"]["input_tokens"]
    replaced = ask(native, "Hi", previous_response_id=first, system_prompt="Be brief.").json()
    assert kept > replaced["stats"]["input_tokens"] + 20


def test_native_answer_is_not_stored_if_the_client_says_so(native: httpx.Client) -> None:
    assert "response_id" not in ask(native, "Hello!", store=False).json()


@pytest.mark.parametrize(
    ("fields", "status", "param", "code"),
    [
        ({"input": []}, 400, "input", None),
        ({"input": [{"type": "image", "data_url": "x"}]}, 400, "input[0].data_url", None),
        ({"integrations": ["mcp/a"]}, 400, "integrations", "unsupported_parameter"),
        ({"reasoning": "much"}, 400, "reasoning", None),
        ({"temperature": "0"}, 400, "temperature", None),
        ({"input": "word " * 30000}, 400, "input", "context_length_exceeded"),
        ({"previous_response_id": "resp_1"}, 400, "previous_response_id", "previous_response_not_found"),
    ],
)
def test_native_errors_name_the_field(
    native: httpx.Client, fields: dict[str, Any], status: int, param: str, code: str | None
) -> None:
    answer = ask(native, "Hello!", **fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (status, param, code)


def test_native_models_have_state_and_capabilities(native: httpx.Client) -> None:
    ask(native, "Hello!")
    (model,) = native.get("/models").json()["models"]
    assert (model["key"], model["type"], model["capabilities"]["vision"]) == (MODEL, "llm", False)
    assert model["loaded_instances"][0]["config"]["context_length"] == model["max_context_length"]


def test_native_chat_is_limited_to_its_context_length(native: httpx.Client) -> None:
    refused = ask(native, "word " * 200, context_length=100)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"


def test_native_load_and_unload_change_the_state(native: httpx.Client) -> None:
    loaded = native.post("/models/load", json={"model": MODEL, "echo_load_config": True}).json()
    assert (loaded["type"], loaded["instance_id"], loaded["status"]) == ("llm", MODEL, "loaded")
    (listed,) = native.get("/models").json()["models"]
    assert listed["loaded_instances"] == [{"id": MODEL, "config": loaded["load_config"]}]
    assert native.post("/models/unload", json={"instance_id": MODEL}).json() == {"instance_id": MODEL}
    assert native.get("/models").json()["models"][0]["loaded_instances"] == []


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("load", {"model": "nothing"}, 404, "model"),
        ("load", {}, 400, "model"),
        ("load", {"model": MODEL, "context_length": 10_000_000}, 400, "context_length"),
        ("load", {"model": MODEL, "context_length": "many"}, 400, "context_length"),
        ("unload", {"instance_id": "nothing"}, 404, "model"),
        ("unload", {"model": MODEL}, 400, "instance_id"),
    ],
)
def test_native_load_and_unload_name_the_wrong_field(
    native: httpx.Client, path: str, body: dict[str, Any], status: int, param: str
) -> None:
    answer = native.post(f"/models/{path}", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)

"""Generation with the vendors' SDKs: whole, streamed, concurrent, refused."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import anthropic
import httpx
import openai
import pytest

from .process import ServerProcess, wait_for

ASK: list[Any] = [{"role": "user", "content": "Say something."}]


def test_models_are_listed_and_found_for_both_sdks(
    openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    assert [model.id for model in openai_client.models.list()] == ["tiny"]
    assert [model.id for model in anthropic_client.models.list()] == ["tiny"]
    assert openai_client.models.retrieve("tiny").object == "model"
    assert anthropic_client.models.retrieve("tiny").type == "model"


@pytest.mark.parametrize("path", ["org/none", "org%2Fnone"])
def test_model_name_may_contain_a_slash(server: ServerProcess, path: str) -> None:
    answer = httpx.get(f"{server.url}/v1/models/{path}")
    assert answer.status_code == 404
    assert "'org/none'" in answer.json()["error"]["message"]


def test_openai_stream_equals_the_whole_answer(openai_client: openai.OpenAI) -> None:
    sent: dict[str, Any] = {
        "model": "tiny",
        "messages": ASK,
        "max_tokens": 40,
        "seed": 11,
        "temperature": 1.0,
    }
    whole = openai_client.chat.completions.create(**sent)
    chunks = list(
        openai_client.chat.completions.create(**sent, stream=True, stream_options={"include_usage": True})
    )
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert streamed == whole.choices[0].message.content != ""
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage is not None
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.completion_tokens, chunks[-1].usage.total_tokens) == (
        40,
        whole.usage.total_tokens,
    )


def test_anthropic_stream_equals_the_whole_message(anthropic_client: anthropic.Anthropic) -> None:
    sent: dict[str, Any] = {
        "model": "tiny",
        "messages": ASK,
        "max_tokens": 40,
        "extra_body": {"temperature": 0},
    }
    whole = anthropic_client.messages.create(**sent)
    with anthropic_client.messages.stream(**sent) as stream:
        streamed = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert streamed == whole.content[0].text != ""
    assert (final.stop_reason, final.usage.output_tokens) == ("max_tokens", 40)
    assert num_input_tokens(final) == num_input_tokens(whole)


def num_input_tokens(message: anthropic.types.Message) -> int:
    """Return the length of the prompt, cached tokens included."""
    return message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)


def test_anthropic_beta_query_uses_the_same_route(anthropic_client: anthropic.Anthropic) -> None:
    answer = anthropic_client.beta.messages.create(
        model="tiny", messages=ASK, max_tokens=3, betas=["effort-2025-11-24"]
    )
    assert answer.usage.output_tokens == 3


def test_sixteen_streams_at_once_all_finish(server: ServerProcess) -> None:
    def ask(seed: int) -> list[str]:
        body = {
            "model": "tiny",
            "messages": ASK,
            "max_tokens": 30,
            "seed": seed,
            "temperature": 1,
            "stream": True,
        }
        with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=60) as response:
            return [line for line in response.iter_lines() if line]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(16)))
    assert all(lines[-1] == "data: [DONE]" for lines in answers)
    assert all(one[1:-1] != other[1:-1] for one, other in pairwise(answers))
    wait_for(lambda: server.health()["open_requests"] == 0, seconds=20)


def test_stream_head_precedes_the_first_token(server: ServerProcess) -> None:
    body = {"model": "tiny", "messages": ASK, "max_tokens": 5, "stream": True}
    with httpx.stream("POST", f"{server.url}/v1/messages", json=body, timeout=30) as response:
        first = next(response.iter_lines())
    assert first == "event: message_start"
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"


def test_stream_that_cannot_start_has_an_error_status(
    openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        openai_client.chat.completions.create(model="huge", messages=ASK, stream=True)
    too_long: list[Any] = [{"role": "user", "content": "very long " * 40_000}]
    with pytest.raises(openai.BadRequestError) as long_chat:
        openai_client.chat.completions.create(model="tiny", messages=too_long, stream=True)
    with pytest.raises(anthropic.BadRequestError) as long_messages:
        anthropic_client.messages.create(model="tiny", messages=too_long, max_tokens=1, stream=True)
    assert unknown.value.code == "model_not_found"
    assert long_chat.value.code == "context_length_exceeded"
    assert "prompt is too long: " in str(long_messages.value)


def test_oversized_body_returns_413(server: ServerProcess) -> None:
    def chunks() -> Any:
        for _ in range(33 * 16):
            yield b" " * 65536

    announced = httpx.post(f"{server.url}/v1/chat/completions", content=b" " * (33 * 2**20), timeout=30)
    unannounced = httpx.post(f"{server.url}/v1/messages", content=chunks(), timeout=30)
    assert announced.status_code == 413
    assert unannounced.json()["error"]["type"] == "request_too_large"

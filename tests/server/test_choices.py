"""Several choices of one request."""

from collections import defaultdict
from contextlib import suppress
from typing import Any

import httpx
import openai
import pytest

from .process import ServerProcess, wait_for

ASKED: dict[str, Any] = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "Say something."}],
    "max_tokens": 20,
    "seed": 5,
    "temperature": 1,
}


def test_choices_differ_and_the_first_equals_a_single_answer(openai_client: openai.OpenAI) -> None:
    alone = openai_client.chat.completions.create(**ASKED)
    several = openai_client.chat.completions.create(**ASKED, n=3)
    contents = [choice.message.content for choice in several.choices]
    assert [choice.index for choice in several.choices] == [0, 1, 2]
    assert contents[0] == alone.choices[0].message.content
    assert len(set(contents)) == 3
    assert alone.usage is not None
    assert several.usage is not None
    assert several.usage.prompt_tokens == alone.usage.prompt_tokens
    assert several.usage.completion_tokens == 60


def test_streamed_choices_equal_whole_choices(openai_client: openai.OpenAI) -> None:
    whole = openai_client.chat.completions.create(**ASKED, n=4)
    contents: dict[int, str] = defaultdict(str)
    order = []
    for chunk in openai_client.chat.completions.create(**ASKED, n=4, stream=True):
        for choice in chunk.choices:
            contents[choice.index] += choice.delta.content or ""
            order.append(choice.index)
    assert [contents[number] for number in range(4)] == [choice.message.content for choice in whole.choices]
    assert order != sorted(order)


def test_choices_prefill_their_prompt_once(server: ServerProcess) -> None:
    def num_read() -> int:
        return int(httpx.get(f"{server.url}/stats").json()["num_prompt_tokens"])

    before = num_read()
    question = " ".join(f"word{number}" for number in range(200))
    body = {**ASKED, "messages": [{"role": "user", "content": question}], "n": 6, "max_tokens": 4}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60).json()
    num_prompt = answer["usage"]["prompt_tokens"]
    assert num_prompt > 400
    assert num_prompt - 2 <= num_read() - before < num_prompt + 50


@pytest.mark.parametrize("is_stream", [True, False])
def test_disconnect_cancels_every_choice(server: ServerProcess, is_stream: bool) -> None:
    body = {**ASKED, "n": 4, "max_tokens": 20_000, "stream": is_stream}
    url = f"{server.url}/v1/chat/completions"
    with suppress(httpx.ReadTimeout), httpx.stream("POST", url, json=body, timeout=0.5) as answer:
        next(answer.iter_lines())
    wait_for(lambda: server.health()["open_requests"] == 0, seconds=20)
    after = httpx.post(url, json={**ASKED, "max_tokens": 1}, timeout=60)
    assert after.status_code == 200

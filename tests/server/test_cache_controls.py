"""Cached-token counts of usage in every protocol."""

import secrets
from typing import Any

import anthropic
import httpx
import openai

from .process import ServerProcess


def _text() -> str:
    """Return a prompt that no test has sent before."""
    return f"{secrets.token_hex(8)} tells of the sea and the hills. " * 4


def _counts(server: ServerProcess, text: str, **fields: Any) -> tuple[int, int]:
    body = {"model": "tiny", "messages": [{"role": "user", "content": text}], "max_tokens": 4} | fields
    usage = httpx.post(f"{server.url}/v1/chat/completions", json=body).raise_for_status().json()["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def test_cached_tokens_are_equal_in_every_protocol(
    server: ServerProcess, openai_client: openai.OpenAI
) -> None:
    text = _text()
    num_prompt, _ = _counts(server, text)

    response = openai_client.responses.create(model="tiny", input=text, max_output_tokens=4)
    messages: list[Any] = [{"role": "user", "content": text}]
    chunks = openai_client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=4, stream=True, stream_options={"include_usage": True}
    )
    streamed = [chunk.usage for chunk in chunks][-1]

    assert response.usage is not None
    assert response.usage.input_tokens_details.cached_tokens == num_prompt - 1
    assert streamed is not None
    assert streamed.prompt_tokens_details is not None
    assert streamed.prompt_tokens_details.cached_tokens == num_prompt - 1


def test_completion_usage_counts_cached_tokens(openai_client: openai.OpenAI) -> None:
    text = _text()
    openai_client.completions.create(model="tiny", prompt=text, max_tokens=4)
    again = openai_client.completions.create(model="tiny", prompt=text, max_tokens=4)

    assert again.usage is not None
    assert again.usage.prompt_tokens_details is not None
    assert again.usage.prompt_tokens_details.cached_tokens == again.usage.prompt_tokens - 1


def test_max_tokens_0_prefills_the_prompt(anthropic_client: anthropic.Anthropic) -> None:
    sent: Any = {"model": "tiny", "messages": [{"role": "user", "content": _text()}]}
    whole = anthropic_client.messages.create(**sent, max_tokens=0)
    assert (whole.content, whole.stop_reason, whole.usage.output_tokens) == ([], "max_tokens", 0)
    with anthropic_client.messages.stream(**sent, max_tokens=0) as stream:
        assert stream.get_final_message().content == []
    known = anthropic_client.messages.create(**sent, max_tokens=4).usage
    assert known.cache_read_input_tokens == whole.usage.input_tokens - 1


def test_breakpoints_report_created_then_read_tokens(
    anthropic_client: anthropic.Anthropic,
) -> None:
    system: list[Any] = [{"type": "text", "text": _text(), "cache_control": {"type": "ephemeral"}}]
    sent: Any = {
        "model": "tiny",
        "system": system,
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 4,
    }
    first = anthropic_client.messages.create(**sent).usage
    with anthropic_client.messages.stream(**sent) as stream:
        opening = next(event for event in stream if event.type == "message_start").message.usage
        second = stream.get_final_message().usage

    # The prompt's first tokens may be known already: too few to be taken over, but not new.
    total = first.input_tokens + first.cache_creation_input_tokens
    assert (first.cache_read_input_tokens, first.input_tokens <= 16) == (0, True)
    assert (second.input_tokens, second.cache_creation_input_tokens, second.cache_read_input_tokens) == (
        1,
        0,
        total - 1,
    )
    assert opening.input_tokens == second.input_tokens
    assert opening.cache_read_input_tokens == second.cache_read_input_tokens


def test_created_tokens_are_counted_by_ttl(
    server: ServerProcess, anthropic_client: anthropic.Anthropic
) -> None:
    hour, minutes = {"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral", "ttl": "5m"}
    system, question = _text(), _text()

    def usage(system_mark: Any, question_mark: Any, question: str) -> anthropic.types.Usage:
        return anthropic_client.messages.create(
            model="tiny",
            system=[{"type": "text", "text": system, "cache_control": system_mark}],
            messages=[
                {
                    "role": "user",
                    "content": [{"type": "text", "text": question, "cache_control": question_mark}],
                }
            ],
            max_tokens=4,
        ).usage

    first = usage(hour, minutes, question)
    # The system prompt is known now, so that all that is new of another question is kept for five minutes.
    second = usage(hour, minutes, _text())

    assert first.cache_creation is not None
    assert second.cache_creation is not None
    counted = anthropic_client.messages.count_tokens(
        model="tiny", messages=[{"role": "user", "content": question}]
    ).input_tokens
    kept_long, kept_short = (
        first.cache_creation.ephemeral_1h_input_tokens,
        first.cache_creation.ephemeral_5m_input_tokens,
    )
    assert kept_long + kept_short == first.cache_creation_input_tokens
    assert kept_short == counted
    assert second.cache_creation.ephemeral_1h_input_tokens == 0
    assert second.cache_creation.ephemeral_5m_input_tokens == second.cache_creation_input_tokens > 0


def test_cache_mode_off_neither_reads_nor_stores(server: ServerProcess) -> None:
    text = _text()
    assert _counts(server, text, cache_mode="off")[1] == 0
    assert _counts(server, text, cache_mode="prefix")[1] < 40
    num_prompt, num_cached = _counts(server, text)
    assert num_cached == num_prompt - 1
    assert _counts(server, text, cache_mode="off")[1] == 0


def test_ttl_0_reads_the_cache_and_stores_nothing(server: ServerProcess) -> None:
    text = _text()
    assert [_counts(server, text, ttl=0)[1] for _ in range(2)] == [0, 0]
    num_prompt, _ = _counts(server, text)
    assert _counts(server, text, ttl=0)[1] == num_prompt - 1

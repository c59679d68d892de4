"""Cached tokens of coding agents' prompts: replayed answers and changing headers."""

from pathlib import Path
from typing import Any

import openai
import pytest

from .hosted import HostedServer, hosting

SYSTEM = "You are a careful agent and read every file twice. " * 10


def _ask(client: openai.OpenAI, *messages: Any) -> Any:
    return client.chat.completions.create(
        model="tiny", messages=list(messages), max_tokens=24, temperature=1.0, seed=3
    )


def test_replayed_answer_is_cached_to_its_last_token(openai_client: openai.OpenAI) -> None:
    question = {"role": "user", "content": "Tell me of the sea and the hills."}
    first = _ask(openai_client, question)

    second = _ask(
        openai_client, question, {"role": "assistant", "content": first.choices[0].message.content}, question
    )

    # All that the engine has computed: the last token of an answer is never run through the model.
    assert (
        second.usage.prompt_tokens_details.cached_tokens
        == first.usage.prompt_tokens + first.usage.completion_tokens - 1
    )


def _header(number: int) -> dict[str, str]:
    return {
        "role": "system",
        "content": f"x-anthropic-billing-header: cc_version=2.1; cch=00{number};\n{SYSTEM}",
    }


def test_changing_agent_header_does_not_break_the_cache(
    openai_client: openai.OpenAI,
) -> None:
    question = {"role": "user", "content": "Hello"}
    _ask(openai_client, _header(1), question)

    again = _ask(openai_client, _header(2), question)

    assert again.usage.prompt_tokens_details.cached_tokens == again.usage.prompt_tokens - 1


@pytest.fixture(scope="module")
def keeping_server(endless_model: Path) -> Any:
    with hosting(endless_model, "--keep-agent-headers") as running:
        yield running


def test_agent_headers_are_kept_if_configured(keeping_server: HostedServer) -> None:
    question = {"role": "user", "content": "Hello"}
    with openai.OpenAI(base_url=f"{keeping_server.url}/v1", api_key="unused", max_retries=0) as client:
        _ask(client, _header(1), question)
        again = _ask(client, _header(2), question)

    assert again.usage.prompt_tokens_details.cached_tokens < 100

"""What was computed and what was reused can be read, in usage and over HTTP."""

from typing import Any

import anthropic
import httpx
import openai

from .process import ServerProcess

LONG: list[Any] = [{"role": "user", "content": "Tell me of the sea and the hills. " * 20}]


def test_a_prompt_that_was_read_before_is_reported_as_cached_by_both_protocols(
    openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    openai_client.chat.completions.create(model="tiny", messages=LONG, max_tokens=2)
    again = openai_client.chat.completions.create(model="tiny", messages=LONG, max_tokens=2)
    message = anthropic_client.messages.create(model="tiny", messages=LONG, max_tokens=2)

    assert again.usage is not None
    assert again.usage.prompt_tokens_details is not None
    assert again.usage.prompt_tokens_details.cached_tokens == again.usage.prompt_tokens - 1
    assert message.usage.cache_read_input_tokens == again.usage.prompt_tokens - 1
    assert message.usage.input_tokens + message.usage.cache_read_input_tokens == again.usage.prompt_tokens


def test_the_engine_tells_what_it_holds_and_what_the_cache_saved(server: ServerProcess, openai_client: openai.OpenAI) -> None:
    openai_client.chat.completions.create(model="tiny", messages=LONG, max_tokens=2)
    openai_client.chat.completions.create(model="tiny", messages=LONG, max_tokens=2)

    stats = httpx.get(f"{server.url}/stats").json()

    assert stats["num_decoding"] == 0
    assert stats["cache_hits"]["exact"] >= 1
    assert stats["cache_tokens_reused"] > 0
    assert 0 < stats["cache_bytes"] <= stats["cache_max_bytes"]
    assert stats["cache_disk"]["num_damaged"] == 0

"""Cached and computed tokens in usage, /stats and /metrics."""

from typing import Any

import anthropic
import httpx
import openai
from prometheus_client.parser import text_string_to_metric_families

from .process import ServerProcess

LONG: list[Any] = [{"role": "user", "content": "Tell me of the sea and the hills. " * 20}]


def test_repeated_prompt_is_reported_as_cached(
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


def test_stats_count_memory_and_reused_tokens(server: ServerProcess, openai_client: openai.OpenAI) -> None:
    openai_client.chat.completions.create(model="tiny", messages=LONG, max_tokens=2)
    openai_client.chat.completions.create(model="tiny", messages=LONG, max_tokens=2)

    stats = httpx.get(f"{server.url}/stats").json()

    assert stats["num_decoding"] == 0
    assert stats["cache_hits"]["supersequence"] >= 1
    assert stats["cache_tokens_reused"] > 0
    assert 0 < stats["cache_bytes"] <= stats["cache_max_bytes"]
    assert stats["cache_disk"]["num_damaged"] == 0


def test_stats_have_server_admission_batch_and_cache(server: ServerProcess) -> None:
    stats = httpx.get(f"{server.url}/stats").json()
    (model,) = stats["pool"]["models"]
    assert (stats["server"]["model"], stats["server"]["owner"]) == ("tiny", "serve")
    assert stats["admission"]["max_safe_context"] == {"tiny": model["max_safe_context"]}
    admission = stats["admission"]
    assert 0 < admission["weights_bytes"] < admission["usable_bytes"] <= admission["machine_memory_bytes"]
    assert stats["batch"] == {"configured": 32, "batched": True, "active_rows": 0}
    kv = stats["kv_quant"]["tiny"]
    assert (kv["mode"], kv["layers"]["full"]) == ("full", kv["attention"]["global"])
    assert stats["prompt_cache"]["misses"] == stats["cache_hits"].get("miss", 0)
    assert stats["response_store"]["ttl_ms"] == 3_600_000
    assert 0 < model["loaded_at"] - stats["server"]["started_at"] < 60


def test_health_has_loaded_models_and_memory(server: ServerProcess) -> None:
    assert httpx.get(f"{server.url}/healthz").json() == {"status": "ok"}
    health = server.health()
    assert health["loaded_models"] == ["tiny"]
    assert 0 < health["memory_bytes"] < health["memory_limit_bytes"]


def test_metrics_have_requests_tokens_times_and_state(
    server: ServerProcess, openai_client: openai.OpenAI
) -> None:
    before = samples(server)
    openai_client.chat.completions.create(model="tiny", messages=LONG, max_tokens=3)
    after = samples(server)

    grown = {name: after[name] - before.get(name, 0) for name in after}
    assert (
        grown['mlxctl_requests_total{end="finished",finish_reason="length",model="tiny",protocol="openai"}']
        == 1
    )
    assert grown['mlxctl_generated_tokens_total{model="tiny"}'] == 3
    assert grown['mlxctl_time_to_first_token_seconds_count{model="tiny"}'] == 1
    assert grown['mlxctl_request_seconds_bucket{le="+Inf",model="tiny"}'] == 1
    assert (after["mlxctl_ready"], after['mlxctl_sequences{state="decoding"}']) == (1, 0)


def samples(server: ServerProcess) -> dict[str, float]:
    """Parse the metrics with Prometheus' own parser."""
    families = text_string_to_metric_families(httpx.get(f"{server.url}/metrics").text)
    return {
        name
        + ("{" + ",".join(f'{key}="{text}"' for key, text in sorted(labels.items())) + "}")
        * bool(labels): value
        for family in families
        for name, labels, value, *_ in family.samples
    }

"""GET /metrics: a fixed list of metrics, whose values follow what happened."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mlxctl.probe.image_check import one_color_png
from tests import tiny_models

from .hosted import HostedServer, hosting
from .process import wait_for
from .test_disconnect import ask

ROOT = Path(__file__).parents[2]
GOLDEN = """
active_memory_bytes agent_turns agents audit_dropped batch_rows buffer_cache_bytes cached_prompt_tokens
deadlines decode_step_seconds denied disconnects draft_accepted_tokens draft_tokens engine_resident_bytes
engine_restarts engine_steps fairness_pauses fairness_preemptions fairness_resumes fairness_tokens
fairness_yields generated_tokens guardrail_matches image_fetch_bytes image_fetch_seconds image_fetches
model_evictions moe_requests model_healthy model_kv_bytes_per_token model_loaded model_loads model_requests
model_routes model_swaps model_weights_bytes peak_memory_bytes prefill_seconds prefill_tokens_per_second
prefix_cache_bytes prefix_cache_disk_bytes prefix_cache_disk_damaged prefix_cache_disk_limit_bytes
prefix_cache_entries prefix_cache_evicted_bytes prefix_cache_evicted_chunks prefix_cache_hit_ratio
prefix_cache_limit_bytes prefix_cache_lookups prefix_cache_oldest_seconds prefix_cache_promotions
prefix_cache_tokens prefix_match_ratio prefix_match_tokens prompt_tokens prompt_tokens_per_request queue_depth
queue_seconds rank_memory_bytes rate_limited ready remote_breaker remote_breaker_changes remote_open_requests
remote_requests request_seconds requests sequences speech_audio_seconds speech_characters
speech_first_audio_seconds speech_real_time_factor time_per_output_token_seconds time_to_first_token_seconds
vision_seconds
"""
PROMPT = [{"role": "user", "content": "Tell me of the sea and the hills. " * 20}]

VISION_MODEL = tiny_models.trained("pixtral_colors")


def other_model() -> Path:
    """A mixture of experts."""
    return tiny_models.model("qwen3_next")


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[HostedServer]:
    models = [argument for path in (other_model(), VISION_MODEL) for argument in ("--model", str(path))]
    options = ("--max-models", "1", *models, "--prefix-cache", "64MiB")
    with hosting(endless_model, *options) as running:
        yield running


def samples(server: HostedServer) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(httpx.get(f"{server.url}/metrics").text)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def value(server: HostedServer, name: str, **labels: str) -> float:
    return samples(server).get((f"mlxctl_{name}", tuple(sorted(labels.items()))), 0.0)


def post(server: HostedServer, model: str = "tiny", **fields: object) -> httpx.Response:
    body = {"model": model, "messages": PROMPT, "max_tokens": 4, **fields}
    return httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)


def test_metrics_are_those_of_the_golden_list(server: HostedServer) -> None:
    assert post(server).status_code == 200
    families = text_string_to_metric_families(httpx.get(f"{server.url}/metrics").text)
    assert sorted(family.name.removeprefix("mlxctl_") for family in families) == sorted(GOLDEN.split())


def test_dashboard_and_rules_name_only_metrics_that_exist() -> None:
    reference = (ROOT / "docs/reference/metrics.md").read_text()
    known = set(re.findall(r"^\| `(mlxctl_\w+)`", reference, re.MULTILINE))
    assets = ROOT / "docs/assets/monitoring"
    dashboard = (assets / "grafana-dashboard.json").read_text()
    used = set(re.findall(r"\bmlxctl_\w+", dashboard + (assets / "prometheus-rules.yml").read_text()))
    assert json.loads(dashboard)["panels"]
    assert {re.sub("_(bucket|sum|count)$", "", name) for name in used} <= known
    rows = dict(re.findall(r"^\| `(mlxctl_\w+)` \|(.*)", reference, re.MULTILINE))
    texts = dashboard + (assets / "prometheus-rules.yml").read_text()
    selectors = re.findall(r"(mlxctl_\w+?)(?:_bucket|_sum|_count)?\{([^}]*)\}", texts)
    assert selectors
    for name, labels in selectors:
        # Prometheus adds `instance`.
        own = set(re.findall(r"(\w+)=", labels)) - {"instance"}
        assert all(f"`{label}`" in rows[name] for label in own), name


def test_requests_are_counted_by_end_finish_reason_and_protocol(server: HostedServer) -> None:
    labels = {"model": "tiny", "end": "finished", "finish_reason": "length"}
    before = [value(server, "requests_total", **labels, protocol=name) for name in ("openai", "anthropic")]
    post(server)
    body = {"model": "tiny", "messages": PROMPT, "max_tokens": 4}
    httpx.post(f"{server.url}/v1/messages", json=body, timeout=60)
    after = [value(server, "requests_total", **labels, protocol=name) for name in ("openai", "anthropic")]
    assert [late - early for early, late in zip(before, after, strict=True)] == [1, 1]


def test_each_request_is_in_the_histograms_of_its_model(server: HostedServer) -> None:
    names = (
        "queue_seconds",
        "prefill_seconds",
        "prefix_match_tokens",
        "prefix_match_ratio",
        "request_seconds",
    )
    before = {name: value(server, f"{name}_count", model="tiny") for name in names}
    steps = value(server, "batch_rows_count")
    post(server)
    assert {
        name: value(server, f"{name}_count", model="tiny") - before[name] for name in names
    } == dict.fromkeys(names, 1)
    assert value(server, "batch_rows_count") - steps >= 4


def test_repeated_prompt_is_matched_in_the_prefix_cache(server: HostedServer) -> None:
    post(server)
    before = value(server, "prefix_match_tokens_sum", model="tiny")
    num_prompt = post(server).json()["usage"]["prompt_tokens"]
    assert value(server, "prefix_match_tokens_sum", model="tiny") - before == num_prompt - 1
    assert value(server, "prefix_cache_tokens") >= num_prompt


def test_queue_that_is_empty_has_a_depth(server: HostedServer) -> None:
    post(server)
    assert value(server, "queue_depth", priority="0") == 0


def test_unknown_models_are_counted_without_their_name(server: HostedServer) -> None:
    before = value(server, "model_routes_total", model="", result="unknown")
    assert post(server, "no-such-model").status_code == 404
    assert value(server, "model_routes_total", model="", result="unknown") == before + 1
    assert not any("no-such-model" in str(labels) for _, labels in samples(server))


def test_disconnects_are_counted(server: HostedServer) -> None:
    before = value(server, "disconnects_total")
    connection = ask(server, "/v1/messages", stream=True)
    connection.recv(65536)
    connection.close()
    wait_for(lambda: value(server, "disconnects_total") == before + 1, seconds=20)
    assert httpx.get(f"{server.url}/stats").json()["num_disconnects"] == before + 1
    ends = {labels for name, labels in samples(server) if name == "mlxctl_requests_total"}
    assert any(("end", "disconnected") in labels for labels in ends)


def test_loading_another_model_counts_a_swap(server: HostedServer) -> None:
    before = [value(server, f"model_{name}_total") for name in ("loads", "evictions", "swaps")]
    assert post(server, other_model().name).status_code == 200
    assert value(server, "model_loaded", model=other_model().name) == 1
    assert value(server, "model_loaded", model="tiny") == 0
    assert post(server, "tiny").status_code == 200
    after = [value(server, f"model_{name}_total") for name in ("loads", "evictions", "swaps")]
    assert [late - early for early, late in zip(before, after, strict=True)] == [2, 2, 2]
    experts = {labels for name, labels in samples(server) if name == "mlxctl_moe_requests_total"}
    assert experts == {(("model", other_model().name),)}
    assert value(server, "moe_requests_total", model=other_model().name) == 1


def test_model_list_has_the_experts(server: HostedServer) -> None:
    models = httpx.get(f"{server.url}/v1/models", timeout=60).json()["data"]
    experts = {one["id"]: (one["is_moe"], one["n_experts"], one["n_active_experts"]) for one in models}
    assert experts.pop(other_model().name) == (True, 4, 2)
    assert set(experts.values()) == {(False, None, None)}


def test_stats_and_requests_show_times_and_cache_shares(server: HostedServer) -> None:
    body = {"model": "tiny", "messages": PROMPT, "max_tokens": 4, "session_id": "a-session"}
    headers = {"x-request-id": "shown"}
    httpx.post(f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=60)
    httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    stats = httpx.get(f"{server.url}/stats").json()
    requests = httpx.get(f"{server.url}/requests").json()["requests"]

    shown = next(view for view in requests if view["request_id"] == "shown")
    assert (shown["protocol"], shown["finish_reason"], shown["session_id"]) == (
        "openai",
        "length",
        "a-session",
    )
    assert 0 <= shown["queue_seconds"] <= shown["age_seconds"]
    assert 0 < shown["prefill_seconds"] <= shown["first_token_seconds"]
    assert shown["vision_seconds"] is None
    assert requests[0]["hit"] == "supersequence"
    assert 0 < stats["cache_usage_percent"] <= 100
    assert 0 < stats["cache_hit_percent"] <= 100
    assert sum(stats["cache_depths"].values()) == stats["cache_chunks"]
    assert stats["cache_tokens"] > 0
    assert stats["uptime_seconds"] > 0


def test_vision_time_is_measured_for_images_only(server: HostedServer) -> None:
    image = f"data:image/png;base64,{b64encode(one_color_png((220, 30, 30))).decode()}"
    parts = [
        {"type": "image_url", "image_url": {"url": image}},
        {"type": "text", "text": "What color is this?"},
    ]
    post(server, VISION_MODEL.name, messages=[{"role": "user", "content": parts}])
    assert value(server, "vision_seconds_count", model=VISION_MODEL.name) == 1
    seen = httpx.get(f"{server.url}/requests").json()["requests"][0]
    post(server, VISION_MODEL.name)
    assert value(server, "vision_seconds_count", model=VISION_MODEL.name) == 1
    assert 0 < seen["vision_seconds"] <= seen["prefill_seconds"]
    total = httpx.get(f"{server.url}/stats").json()["vision_seconds"]
    assert total == pytest.approx(seen["vision_seconds"], abs=0.001)

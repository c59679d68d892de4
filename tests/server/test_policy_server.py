"""Decisions of an OPA-shaped server, audit records and traces."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mlxctl.server.middleware.request_recording import valid_traceparent
from tests.server.policy.opa_double import OpaDouble, opa_double

from .hosted import HostedServer, hosting
from .otlp_collector import OtlpCollector, attributes, otlp_collector
from .process import wait_for

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hello there"}], "max_tokens": 1}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


@pytest.fixture(scope="module")
def opa() -> Iterator[OpaDouble]:
    with opa_double() as double:
        yield double


@pytest.fixture(scope="module")
def collector() -> Iterator[OtlpCollector]:
    with otlp_collector() as double:
        yield double


@pytest.fixture(scope="module")
def server(endless_model: Path, opa: OpaDouble, collector: OtlpCollector) -> Iterator[HostedServer]:
    settings = {
        "MLXCTL_TELEMETRY_OTLP_ENDPOINT": collector.url,
        "MLXCTL_TELEMETRY_SERVICE_NAME": "studio",
        "MLXCTL_TELEMETRY_HEADERS": "x-collector-key=open",
        "OTEL_BSP_SCHEDULE_DELAY": "20",
        "MLXCTL_OPA_URL": opa.url,
        "MLXCTL_OPA_CACHE_SECONDS": "0",
        "MLXCTL_OPA_TIMEOUT_SECONDS": "20",
        "MLXCTL_SCHEDULER_MAX_TIMESLICE_TOKENS": "4",
    }
    with hosting(endless_model, "--audit", "--max-rows", "1", **settings) as running:
        yield running


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_denied_request_gets_the_reason(server: HostedServer, opa: OpaDouble, path: str) -> None:
    opa.result = {"allow": False, "reason": "only at night"}
    denied = httpx.post(server.url + path, json=CHAT, timeout=60)
    assert (denied.status_code, "only at night" in denied.text) == (403, True)
    document = opa.inputs[-1]
    assert (document["model"], document["route"]) == ("tiny", path)
    assert document["num_tokens"] > 5
    assert len(document["prompt_sha256"]) == 64

    opa.result = True
    assert httpx.post(server.url + path, json=CHAT, timeout=60).is_success


def test_policy_server_that_fails_stops_requests(server: HostedServer, opa: OpaDouble) -> None:
    opa.status = 500
    refused = httpx.post(f"{server.url}/v1/chat/completions", json=CHAT, timeout=60)
    opa.status = 200
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "policy_unavailable")


@pytest.mark.parametrize(
    ("traceparent", "is_valid"),
    [
        (f"00-{TRACE}-{PARENT}-01", True),
        (f" 00-{TRACE}-{PARENT}-01-more ", True),
        (f"00-{'0' * 32}-{PARENT}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"ff-{TRACE}-{PARENT}-01", False),
        (f"00-{TRACE}-{PARENT}-01-{'x' * 256}", False),
        ("nonsense", False),
        (None, False),
    ],
)
def test_only_valid_traceparents_are_taken_over(traceparent: str | None, is_valid: bool) -> None:
    assert valid_traceparent(traceparent) == (traceparent.strip() if traceparent and is_valid else None)


def test_audit_record_has_the_trace_id(server: HostedServer) -> None:
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "traced"}
    httpx.get(f"{server.url}/v1/models", headers=headers)

    def record() -> dict[str, Any] | None:
        records = httpx.get(f"{server.url}/admin/audit?limit=5").json()["records"]
        return next((each for each in records if each["request_id"] == "traced"), None)

    wait_for(record, seconds=20)
    assert (record() or {}).get("trace_id") == TRACE


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_spans_of_a_request_are_exported(
    server: HostedServer, opa: OpaDouble, collector: OtlpCollector, path: str
) -> None:
    trace_id = f"{len(path):032x}"
    headers = {"traceparent": f"00-{trace_id}-{PARENT}-01", "tracestate": "vendor=1"}
    answer = httpx.post(server.url + path, json={**CHAT, "max_tokens": 3}, headers=headers, timeout=60)
    name = f"POST {path}"
    wait_for(lambda: name in collector.of_trace(trace_id), seconds=20)
    spans = collector.of_trace(trace_id)
    whole, generation = spans[name], spans["chat tiny"]
    assert whole.parent_span_id.hex() == PARENT
    assert answer.headers["traceparent"] == f"00-{trace_id}-{whole.span_id.hex()}-01" == opa.traceparents[-1]
    assert generation.parent_span_id == whole.span_id
    steps = [spans[step] for step in ("prepare", "queue", "prefix_cache.lookup", "prefill", "decode")]
    assert {step.parent_span_id for step in steps} == {generation.span_id}
    times = [time for step in steps for time in (step.start_time_unix_nano, step.end_time_unix_nano)]
    assert times == sorted(times)
    assert whole.start_time_unix_nano <= times[0]
    assert times[-1] <= whole.end_time_unix_nano
    assert attributes(whole)["http.response.status_code"] == 200
    assert attributes(generation)["gen_ai.usage.output_tokens"] == 3
    assert attributes(generation)["gen_ai.response.finish_reasons"] == ["length"]
    assert spans["tokenize"].end_time_unix_nano <= spans["policy"].start_time_unix_nano
    lookup = spans["prefix_cache.lookup"]
    assert attributes(lookup)["mlxctl.prefix_cache.hit"]
    assert lookup.start_time_unix_nano < lookup.end_time_unix_nano
    assert attributes(steps[3].events[-1])["mlxctl.prefill.tokens"] > 5
    phases = [spans[phase] for phase in ("parse", "template", "tokenize", "queue", "format")]
    assert {phase.parent_span_id for phase in phases if phase.name != "queue"} == {whole.span_id}
    times = [time for phase in phases for time in (phase.start_time_unix_nano, phase.end_time_unix_nano)]
    assert times == sorted(times)
    assert steps[-1].end_time_unix_nano <= phases[-1].start_time_unix_nano
    assert collector.resources[-1]["service.name"] == "studio"


def test_interruptions_are_events_of_the_decode_span(server: HostedServer, collector: OtlpCollector) -> None:
    body = {**CHAT, "n": 2, "max_tokens": 24}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    trace_id = answer.headers["traceparent"].split("-")[1]
    wait_for(lambda: "POST /v1/chat/completions" in collector.of_trace(trace_id), seconds=20)
    decoding = [span for span in collector.spans if span.trace_id.hex() == trace_id and span.name == "decode"]
    for span in decoding:
        names = [event.name.removeprefix("scheduler.fairness.") for event in span.events]
        assert names == ["yield", "resume"] * (len(names) // 2)
        times = [event.time_unix_nano for event in span.events]
        assert [span.start_time_unix_nano, *times, span.end_time_unix_nano] == sorted(
            [span.start_time_unix_nano, *times, span.end_time_unix_nano]
        )
    yields = [event for span in decoding for event in span.events if event.name.endswith("yield")]
    assert {attributes(event)["mlxctl.scheduler.reason"] for event in yields} == {"timeslice"}


def test_traces_never_have_prompts_or_answers(server: HostedServer, collector: OtlpCollector) -> None:
    body = {**CHAT, "messages": [{"role": "user", "content": "canary-zebra-4711"}]}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    trace_id = answer.headers["traceparent"].split("-")[1]
    wait_for(lambda: len(collector.of_trace(trace_id)) == 12, seconds=20)
    assert "canary" not in str(collector.spans)


def test_unsampled_requests_are_not_exported(server: HostedServer, collector: OtlpCollector) -> None:
    unsampled = {"traceparent": f"00-{'ab' * 16}-{PARENT}-00"}
    assert httpx.get(f"{server.url}/v1/models", headers=unsampled).headers["traceparent"].endswith("-00")
    later = httpx.get(f"{server.url}/v1/models").headers["traceparent"].split("-")[1]
    wait_for(lambda: collector.of_trace(later), seconds=20)
    assert not collector.of_trace("ab" * 16)


def test_spans_name_guardrails_and_the_load_of_a_model(
    server: HostedServer, collector: OtlpCollector
) -> None:
    rules = {"blocklist": ["xyzzy"], "apply_to": ["input"]}
    assert httpx.put(f"{server.url}/admin/guardrails", json=rules).is_success
    assert httpx.post(f"{server.url}/models/unload", json={"model": "tiny"}, timeout=60).is_success
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=CHAT, timeout=60)
    assert httpx.put(f"{server.url}/admin/guardrails", json={}).is_success
    trace_id = answer.headers["traceparent"].split("-")[1]
    wait_for(lambda: "POST /v1/chat/completions" in collector.of_trace(trace_id), seconds=20)
    spans = collector.of_trace(trace_id)
    names = ("parse", "guardrails", "model_load", "template")
    times = [
        time for name in names for time in (spans[name].start_time_unix_nano, spans[name].end_time_unix_nano)
    ]
    assert times == sorted(times)

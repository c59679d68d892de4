"""Costs of a server for a team.

Of its controls, time until a client that left frees its row, audit search.
"""

import json
import socket
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from mlxctl.bench.run import RunOptions, ServerChoice, run_bench
from mlxctl.bench.scenarios import Throughput
from mlxctl.ir.policy import SCOPES, ApiKey, KeyLimits, Limits
from mlxctl.server.policy.backend import RequestFacts, decide_locally
from mlxctl.server.policy.key_table import KeyTable, secret_digest
from mlxctl.server.policy.rate_limits import RateLimiter
from mlxctl.state.stores.audit_files import AuditFiles, AuditQuery, AuditRecord
from tests.bench.recording_observer import RecordingObserver
from tests.benchmarks.load import chat_body
from tests.benchmarks.rounds import Finding, Ratio
from tests.benchmarks.servers import Server, mlxctl_server

_KEY = "bench-key-0123456789"
_STREAMS = 16
_NUM_DECISIONS = 20_000
_NUM_RECORDS = 1_000_000
_SETTINGS = f"""
[server]
api_keys = ["{_KEY}"]
[limits]
requests_per_minute = 1000000
tokens_per_minute = 1000000000
concurrent = 1000
[guardrails]
blocklist = ["words that no answer has", "another phrase"]
"""


def findings(model: Path, *, rounds: int) -> Iterator[Finding]:
    """Yield decisions, audit searches and disconnects."""
    yield _decisions(rounds)
    yield from _searches(rounds)
    with mlxctl_server(model) as server:
        yield _disconnects(server, rounds=10 * rounds)


def cost(model: Path, *, rounds: int, num_tokens: int) -> Iterator[Finding]:
    """Yield the cost of keys, limits, guardrails and audit, in alternating rounds."""
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "mlxctl.toml"
        config.write_text(_SETTINGS + f'[audit]\nenabled = true\npath = "{scratch}/audit"\n')
        with mlxctl_server(model) as plain, mlxctl_server(model, config=config) as controlled:
            yield _cost(plain, controlled, rounds=rounds, num_tokens=num_tokens)


def _cost(plain: Server, controlled: Server, *, rounds: int, num_tokens: int) -> Finding:
    scenario = Throughput(streams=(_STREAMS,), answer_tokens=num_tokens, prompt_tokens=64)
    choices = [
        ServerChoice(url=server.url, model=server.model, api_key=key)
        for server, key in ((plain, None), (controlled, _KEY))
    ]
    result = run_bench(scenario, RunOptions(servers=tuple(choices), num_rounds=rounds), RecordingObserver())
    name = f"decode_tokens_per_second_x{_STREAMS}"
    rates = {each.target: each.rounds for each in result.measurements if each.name == name}
    detail = " and ".join(f"{statistics.median(found):.0f}" for found in rates.values())
    name = f"{_STREAMS} streams: keys, limits, guardrails and audit off / on"
    return Finding(name, Ratio.of(rates["A"], rates["B"]), 1.02, False, f"{detail} tokens/s")


def _disconnects(server: Server, *, rounds: int) -> Finding:
    seconds = [_seconds_to_free_row(server) for _ in range(rounds)]
    ratio = Ratio(statistics.median(seconds), min(seconds), max(seconds))
    return Finding(
        "row freed after its client left, s", ratio, 0.2, False, f"{ratio.highest * 1e3:.0f} ms at most"
    )


def _seconds_to_free_row(server: Server) -> float:
    body = json.dumps(chat_body("hello", max_tokens=100_000, ignore_eos=True)).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + body)
        received = b""
        while received.count(b"data:") < 5:
            received += connection.recv(65536)
        assert _num_rows(server) == 1
    left = time.perf_counter()
    while _num_rows(server):
        pass
    return time.perf_counter() - left


def _num_rows(server: Server) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/stats", timeout=10) as answer:
        num_decoding: int = json.load(answer)["num_decoding"]
    return num_decoding


def _decisions(rounds: int) -> Finding:
    keys = [_api_key(number) for number in range(100)]
    table, limiter = KeyTable(keys), RateLimiter()
    limits = Limits(requests_per_minute=10**9, tokens_per_minute=10**12, concurrent=10**6)
    rates = []
    for _ in range(rounds):
        started = time.process_time()
        for number in range(_NUM_DECISIONS):
            key = table.find(secret_digest(f"secret {number % 100}"))
            assert key is not None
            facts = RequestFacts(
                caller=key.id,
                scopes=frozenset(key.scopes),
                models=key.models,
                scope="generate",
                model="qwen3",
            )
            assert decide_locally(facts).allowed
            limiter.admit({(key.id,): limits, (key.id, "qwen3"): limits}, max_tokens=100).settle(10)
        rates.append(_NUM_DECISIONS / (time.process_time() - started))
    ratio = Ratio(statistics.median(rates), min(rates), max(rates))
    return Finding("key, scope, model and limits: requests per CPU second", ratio, 10_000, True, "100 keys")


def _api_key(number: int) -> ApiKey:
    return ApiKey(
        id=f"key_{number}",
        name=f"key {number}",
        sha256=secret_digest(f"secret {number}"),
        scopes=SCOPES,
        models=("qwen*",),
        limits=KeyLimits(),
    )


def _searches(rounds: int) -> Iterator[Finding]:
    with tempfile.TemporaryDirectory() as scratch:
        log = AuditFiles(Path(scratch), retention_days=30, max_bytes=4 << 30)
        for start in range(0, _NUM_RECORDS, 1000):
            log.append([_record(number) for number in range(start, start + 1000)])
        num_bytes = sum(path.stat().st_size for path in Path(scratch).glob("*.jsonl"))
        for name, query, bar in (
            ("one record of a rare key", AuditQuery(key="key_rare"), 0.2),
            ("nothing: a key without such a status", AuditQuery(key="key_1", status=500), 0.2),
            ("the last 100 of a common key", AuditQuery(key="key_2"), 0.2),
        ):
            seconds = []
            for _ in range(rounds):
                started = time.perf_counter()
                log.search(query)
                seconds.append(time.perf_counter() - started)
            ratio = Ratio(statistics.median(seconds), min(seconds), max(seconds))
            detail = f"{_NUM_RECORDS:,} records, {num_bytes / 1e6:.0f} MB"
            yield Finding(f"audit search, {name}, s", ratio, bar, False, detail)


def _record(number: int) -> AuditRecord:
    rare = number == _NUM_RECORDS // 3
    caller = "key_rare" if rare else f"key_{number % 8}"
    return AuditRecord(
        time=1.8e9 + number,
        request_id=f"req_{number:032x}",
        caller=caller,
        remote="127.0.0.1",
        protocol="openai",
        method="POST",
        route="/v1/chat/completions",
        model=f"qwen3-{number % 3}b",
        backend="local",
        stream=True,
        status=500 if number % 1000 == 0 else 200,
        finish_reason="stop",
        prompt_tokens=1234,
        cached_tokens=1000,
        computed_tokens=234,
        completion_tokens=345,
        queue_ms=1.234,
        prefill_ms=45.678,
        ttft_ms=56.789,
        duration_ms=2345.678,
        trace_id=f"{number:032x}",
        prompt_sha256=[f"{number:064x}"],
        response_sha256=[f"{number + 1:064x}"],
    )

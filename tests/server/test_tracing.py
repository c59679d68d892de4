"""Trace spans without a collector."""

import asyncio

import pytest

from mlxctl.ir.errors import SettingsError
from mlxctl.server.observe import tracing
from mlxctl.server.observe.http_record import HttpRecord
from mlxctl.server.observe.tracing import RequestTracing
from mlxctl.state.settings import TelemetrySettings


def test_absent_collector_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_EXPORT_SECONDS", 0.2)
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    requests = RequestTracing(TelemetrySettings(otlp_endpoint="http://me:secret@127.0.0.1:9"))
    for number in range(3):
        request = HttpRecord(request_id=str(number), method="GET", path="/", route="/")
        requests.start(request, None)
        requests.record(request)
    asyncio.run(requests.close())
    assert ["http://127.0.0.1:9/v1/traces" in message for message in caplog.messages] == [True]
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "endpoint", ["127.0.0.1:4318", "collector", "ftp://127.0.0.1", "http://", "http://[", "http://h:x"]
)
def test_endpoint_must_be_a_url(endpoint: str) -> None:
    with pytest.raises(SettingsError, match=r"telemetry\.otlp_endpoint"):
        RequestTracing(TelemetrySettings(otlp_endpoint=endpoint))

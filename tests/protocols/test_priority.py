"""Service tiers of bodies, and the header of the priority."""

import json
from typing import Any

import pytest

from mlxctl.ir import GenerationRequest, TextResult, Usage, text_message
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols import (
    PROTOCOLS,
    header_priority,
)

from .scripts import encoder_of

MESSAGES = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": MESSAGES},
    "responses": {"model": "m", "input": "Hi"},
    "messages": {"model": "m", "messages": MESSAGES, "max_tokens": 4},
}


def parse(protocol: str, **fields: Any) -> GenerationRequest:
    return PROTOCOLS[protocol].parse_alone(json.dumps(BODIES[protocol] | fields).encode())


@pytest.mark.parametrize("protocol", ["chat", "responses"])
@pytest.mark.parametrize(
    ("fields", "priority"),
    [
        ({"service_tier": "priority"}, -10),
        ({"service_tier": "fast"}, -10),
        ({"service_tier": "flex"}, 10),
        ({"service_tier": "default"}, 0),
        ({"service_tier": "auto"}, None),
        ({"service_tier": "flex", "priority": -3}, -3),
    ],
)
def test_service_tier_sets_priority(protocol: str, fields: dict[str, Any], priority: int | None) -> None:
    assert parse(protocol, **fields).priority == priority


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
def test_unknown_service_tier_is_refused_by_name(protocol: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(protocol, service_tier="platinum")

    assert refused.value.param == "service_tier"


@pytest.mark.parametrize(
    ("fields", "tier"),
    [
        ({}, None),
        ({"service_tier": "auto"}, "default"),
        ({"service_tier": "priority"}, "priority"),
        ({"service_tier": "priority", "priority": 5}, "flex"),
    ],
)
def test_chat_reports_service_tier_where_one_was_set(fields: dict[str, Any], tier: str | None) -> None:
    encoder = encoder_of("chat", BODIES["chat"] | fields)
    usage = Usage(num_prompt_tokens=1, num_cached_tokens=0, num_completion_tokens=1)

    chunk = json.loads(encoder.begin(usage).decode().removeprefix("data: "))
    whole = json.loads(
        encoder.whole(TextResult(message=text_message("assistant", "Hi"), reason="stop", usage=usage))
    )

    assert (chunk.get("service_tier"), whole.get("service_tier")) == (tier, tier)


def test_messages_report_service_tier_where_one_was_set() -> None:
    usage = Usage(num_prompt_tokens=1, num_cached_tokens=0, num_completion_tokens=1)
    result = TextResult(message=text_message("assistant", "Hi"), reason="stop", usage=usage)
    assert parse("messages").priority is None
    assert parse("messages", service_tier="standard_only").priority == 0
    plain = encoder_of("messages", BODIES["messages"])
    tiered = encoder_of("messages", BODIES["messages"] | {"service_tier": "standard_only"})

    assert json.loads(plain.whole(result))["usage"]["service_tier"] is None
    assert json.loads(tiered.whole(result))["usage"]["service_tier"] == "standard"


@pytest.mark.parametrize(
    ("value", "priority"), [(None, 0), ("interactive", -10), ("default", 0), (" Background ", 10)]
)
def test_header_names_a_class_of_priority(value: str | None, priority: int) -> None:
    assert header_priority(value) == priority


@pytest.mark.parametrize("value", ["", "urgent", "-10"])
def test_unknown_class_in_header_is_refused_by_name(value: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        header_priority(value)

    assert refused.value.param == "x-mlxctl-priority"

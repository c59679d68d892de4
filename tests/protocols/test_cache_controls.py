"""cache_control of Anthropic's messages."""

import json
from typing import Any

import pytest

from mlxctl.ir import CacheBreakpoint, CacheOptions, Finished, GenerationRequest, TextDelta, Usage
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols import (
    PROTOCOLS,
)

from .scripts import data_of, encoder_of

HELLO = [{"role": "user", "content": "Hello"}]
MARK = {"type": "ephemeral"}


def messages(**fields: Any) -> GenerationRequest:
    return PROTOCOLS["messages"].parse_alone(
        json.dumps({"model": "m", "max_tokens": 9, "messages": HELLO} | fields).encode()
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"cache_control": MARK | {"ttl": "1h"}},
        {"system": [{"type": "text", "text": "Hi", "cache_control": MARK | {"ttl": "1h"}}]},
        {"tools": [{"name": "clock", "input_schema": {}, "cache_control": MARK | {"ttl": "1h"}}]},
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Hi", "cache_control": MARK | {"ttl": "1h"}}],
                }
            ]
        },
        {
            "system": [{"type": "text", "text": "Hi", "cache_control": MARK | {"ttl": "5m"}}],
            "cache_control": MARK | {"ttl": "1h"},
        },
    ],
    ids=["request", "system", "tool", "message", "the longest of two"],
)
def test_breakpoint_at_any_place_sets_the_ttl(fields: dict[str, Any]) -> None:
    assert messages(**fields).cache == CacheOptions(ttl_seconds=3600)


def test_breakpoint_without_ttl_sets_none() -> None:
    assert messages(cache_control=MARK | {"ttl": "5m"}).cache.ttl_seconds == 300
    assert messages(cache_control=MARK).cache == CacheOptions()


def marked(text: str, ttl: str | None = None) -> dict[str, Any]:
    return {"type": "text", "text": text, "cache_control": MARK | ({"ttl": ttl} if ttl else {})}


PLAIN = {"type": "text", "text": "More"}
CLOCK = {"name": "clock", "input_schema": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [marked("noon", "1h")]}


@pytest.mark.parametrize(
    ("fields", "long_ttl"),
    [
        (
            {"system": [marked("Hi", "1h"), PLAIN]},
            CacheBreakpoint(ttl_seconds=3600, num_tools=0, num_messages=1, num_excluded_parts=1),
        ),
        (
            {"tools": [CLOCK | {"cache_control": MARK | {"ttl": "1h"}}, CLOCK | {"name": "other"}]},
            CacheBreakpoint(ttl_seconds=3600, num_tools=1),
        ),
        (
            {"messages": [{"role": "user", "content": [marked("a", "5m"), marked("b", "1h")]}, *HELLO]},
            CacheBreakpoint(ttl_seconds=3600, num_tools=0, num_messages=1),
        ),
        (
            {
                "system": "Be brief",
                "messages": [
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": "t", "name": "clock", "input": {}}],
                    },
                    {"role": "user", "content": [RESULT, PLAIN]},
                ],
            },
            CacheBreakpoint(ttl_seconds=3600, num_tools=0, num_messages=3),
        ),
    ],
    ids=["a part of a system prompt", "a tool", "a part of a message", "a tool's result"],
)
def test_one_hour_ttl_ends_at_its_breakpoint_before_a_shorter_one(
    fields: dict[str, Any], long_ttl: CacheBreakpoint
) -> None:
    fields = {"messages": HELLO} | fields
    later = {"role": "user", "content": [marked("And now?", "5m")]}
    asked = messages(**fields | {"messages": [*fields["messages"], later]})
    assert asked.cache == CacheOptions(ttl_seconds=300, long_ttl=long_ttl)


def test_later_breakpoint_without_ttl_counts_as_five_minutes() -> None:
    asked = messages(system=[marked("Hi", "1h")], messages=[{"role": "user", "content": [marked("Hello")]}])
    assert asked.cache == CacheOptions(
        ttl_seconds=3600, long_ttl=CacheBreakpoint(ttl_seconds=3600, num_tools=0, num_messages=1)
    )


@pytest.mark.parametrize(
    ("ttls", "expected"),
    [((), (0, 0)), ((None,), (60, 0)), (("5m",), (60, 0)), (("1h",), (0, 60)), (("1h", "5m"), (20, 40))],
)
def test_usage_counts_created_tokens_by_ttl(ttls: tuple[str | None, ...], expected: tuple[int, int]) -> None:
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": HELLO,
        "system": [marked("Hi", ttl) for ttl in ttls] or "Hi",
    }
    encoder = encoder_of("messages", body)
    num_longer = 40 if len(ttls) > 1 else 0
    usage = Usage(
        num_prompt_tokens=100,
        num_cached_tokens=15,
        num_stored_tokens=60,
        num_long_ttl_stored_tokens=num_longer,
    )

    counted = data_of(encoder.begin(usage))[0]["message"]["usage"]

    assert counted["cache_creation"] == {
        "ephemeral_5m_input_tokens": expected[0],
        "ephemeral_1h_input_tokens": expected[1],
    }
    assert counted["cache_creation_input_tokens"] == sum(expected)


def test_unknown_ttl_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest) as caught:
        messages(cache_control=MARK | {"ttl": "2h"})
    assert caught.value.param == "cache_control.ttl"


@pytest.mark.parametrize(("mark", "expected"), [({"cache_control": MARK}, (25, 60, 15)), ({}, (40, 0, 60))])
def test_prompt_counts_agree_at_start_and_end_of_a_message(
    mark: dict[str, Any], expected: tuple[int, ...]
) -> None:
    encoder = encoder_of("messages", {"model": "m", "max_tokens": 9, "messages": HELLO} | mark)
    usage = Usage(
        num_prompt_tokens=100,
        num_cached_tokens=60 if not mark else 15,
        num_stored_tokens=60,
        num_completion_tokens=2,
    )
    end = [TextDelta(text="Hi"), Finished(reason="stop", usage=usage)]

    events = data_of(encoder.begin(usage) + b"".join(map(encoder.on_event, end)))

    for counted in (
        events[0]["message"]["usage"],
        next(event["usage"] for event in events if event["type"] == "message_delta"),
    ):
        counts = (
            counted["input_tokens"],
            counted["cache_creation_input_tokens"],
            counted["cache_read_input_tokens"],
        )
        assert counts == expected
        assert sum(counts) == 100

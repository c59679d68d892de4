"""Every field that switches thinking, on every route that has one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.protocols import PROTOCOLS

Field = Callable[[bool], dict[str, Any]]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "protocols.md"
USER = {"role": "user", "content": "Hi"}
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"messages": [USER]},
    "responses": {"input": "Hi"},
    "messages": {"messages": [USER], "max_tokens": 9},
    "ollama_chat": {"messages": [USER]},
    "ollama_generate": {"prompt": "Hi"},
}


def _thinking_object(on: bool) -> dict[str, Any]:
    return {"thinking": {"type": "enabled" if on else "disabled"}}


def _of_template(on: bool) -> dict[str, Any]:
    return {"chat_template_kwargs": {"enable_thinking": on}}


def _named(name: str) -> Field:
    return lambda on: {name: on}


SHARED = (_named("enable_thinking"), _named("think"))
# The first field that a request sets counts.
SWITCHES: dict[str, tuple[Field, ...]] = {
    "chat": (*SHARED, _thinking_object, lambda on: {"reasoning": {"enabled": on}}, _of_template),
    "responses": (*SHARED, _of_template),
    "messages": (_thinking_object, *SHARED, _of_template),
    "ollama_chat": (_named("think"),),
    "ollama_generate": (_named("think"),),
}
NO_EFFORT: dict[str, dict[str, Any]] = {
    "chat": {"reasoning_effort": "none"},
    "responses": {"reasoning": {"effort": "none"}},
    "ollama_chat": {"think": "none"},
    "ollama_generate": {"think": "none"},
}


def is_enabled(protocol: str, fields: dict[str, Any]) -> bool | None:
    body = {"model": "tiny", **BODIES[protocol], **fields}
    return PROTOCOLS[protocol].parse_alone(json.dumps(body).encode()).thinking.enabled


@pytest.mark.parametrize("protocol", SWITCHES)
@given(data=st.data())
def test_first_field_that_is_set_switches_thinking(protocol: str, data: st.DataObject) -> None:
    switches = SWITCHES[protocol]
    values = data.draw(
        st.lists(st.none() | st.booleans(), min_size=len(switches), max_size=len(switches)), label="values"
    )
    given_values = [
        (field, value) for field, value in zip(switches, values, strict=True) if value is not None
    ]
    fields = {name: part for field, value in given_values for name, part in field(value).items()}
    assert is_enabled(protocol, fields) == (given_values[0][1] if given_values else None)


@pytest.mark.parametrize("protocol", NO_EFFORT)
def test_effort_none_switches_thinking_off(protocol: str) -> None:
    assert is_enabled(protocol, NO_EFFORT[protocol]) is False


@pytest.mark.parametrize("protocol", SWITCHES)
def test_every_switch_is_documented(protocol: str) -> None:
    rows = PAGE.read_text(encoding="utf-8").split("## Thinking")[1].split("## ")[0].splitlines()
    label = {"chat": "chat completions", "ollama_chat": "Ollama", "ollama_generate": "Ollama"}
    (row,) = [row for row in rows if row.startswith(f"| {label.get(protocol, protocol)} ")]
    for field in SWITCHES[protocol]:
        (name,) = field(True)
        assert f"`{name}" in row

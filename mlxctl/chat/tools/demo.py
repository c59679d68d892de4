"""The demo tools: a clock and a calculator.

They read no file and open no connection. Errors of a call become its result, not exceptions.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from mlxctl.chat.tools.calculator import calculate
from mlxctl.chat.tools.toolbox import Tool, error_result, text_result
from mlxctl.ir import ToolCallPart, ToolResultPart, ToolSpec


def tell_time(timezone: str = "", *, now: datetime | None = None) -> str:
    """Return date, time and zone.

    `timezone` is an IANA name or its city; empty means local time. Raises ValueError with a message for the
    model.
    """
    # PERF: not imported before the first frame of a chat.
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(_find_zone(timezone)) if timezone else None
    return (now or datetime.now(UTC)).astimezone(zone).strftime("%A, %Y-%m-%d %H:%M:%S %Z")


def _find_zone(name: str) -> str:
    from zoneinfo import available_timezones

    wanted = name.strip().replace(" ", "_").casefold()
    zones = sorted(available_timezones())
    for spelled in (str.casefold, _city):
        found = next((zone for zone in zones if spelled(zone) == wanted), None)
        if found is not None:
            return found
    raise ValueError(f"unknown time zone {name!r}; use an IANA name like 'Europe/Berlin'")


def _city(zone: str) -> str:
    return zone.rpartition("/")[2].casefold()


def _text_parameter(name: str, description: str, *, is_required: bool) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": description}},
        "required": [name] if is_required else [],
    }


_TOOLS: dict[str, tuple[ToolSpec, Callable[..., str]]] = {
    "calculator": (
        ToolSpec(
            name="calculator",
            description="Evaluate an arithmetic expression",
            parameters=_text_parameter("expression", "The expression, e.g. (2 + 3) * 4", is_required=True),
        ),
        calculate,
    ),
    "get_time": (
        ToolSpec(
            name="get_time",
            description="Get the current time in a given time zone",
            parameters=_text_parameter(
                "timezone", "IANA time zone name, e.g. Europe/Berlin", is_required=False
            ),
        ),
        tell_time,
    ),
}

DEMO_TOOLS: tuple[ToolSpec, ...] = tuple(spec for spec, _ in _TOOLS.values())
"""The tool specifications offered to the model."""


def run_call(call: ToolCallPart) -> ToolResultPart:
    """Run the call and return its result for the model."""
    try:
        return text_result(call, _run(call))
    except ValueError as error:
        return error_result(call, str(error))


def _run(call: ToolCallPart) -> str:
    if call.name not in _TOOLS:
        raise ValueError(f"there is no tool {call.name!r}; there are: {', '.join(_TOOLS)}")
    spec, function = _TOOLS[call.name]
    try:
        arguments = msgspec.json.decode(call.arguments or "{}", type=dict[str, str | int | float])
    except msgspec.MsgspecError:
        raise ValueError("the arguments are not a JSON object of texts and numbers") from None
    known = spec.parameters["properties"]
    if unknown := sorted(arguments.keys() - known.keys()):
        raise ValueError(f"unknown argument {unknown[0]!r}; there is: {', '.join(known)}")
    if missing := [name for name in spec.parameters["required"] if name not in arguments]:
        raise ValueError(f"the argument {missing[0]!r} is missing")
    return function(**{name: str(value) for name, value in arguments.items()})


class DemoTools:
    """The demo tools as a `ToolSource`."""

    def __init__(self) -> None:
        self.name = "built-in"
        self.problem: str | None = None
        self.tools = [
            Tool(spec=spec, origin=self.name, needs_approval=False, run=_run_at_once) for spec in DEMO_TOOLS
        ]

    async def open(self) -> None:
        """Do nothing: the tools are part of the program."""

    async def close(self) -> None:
        """Do nothing: there is no connection."""


async def _run_at_once(call: ToolCallPart) -> ToolResultPart:
    return run_call(call)

"""Chat options as text: ranges, parsing, and `/set NAME VALUE`. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from mlxctl.tui.conversation import ChatOptions, ThinkingChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberOption:
    """A numeric option and its range."""

    label: str
    least: float
    most: float
    is_whole: bool = False

    def read(self, text: str) -> float | int | None:
        """Return the number; None for an empty text. Raises ValueError."""
        if not text.strip():
            return None
        kind, shown = ("a whole number", ",d") if self.is_whole else ("a number", "g")
        expected = f"{self.label} must be {kind} from {self.least:{shown}} to {self.most:{shown}}"
        try:
            number = int(text) if self.is_whole else float(text)
        except ValueError:
            raise ValueError(f"{expected}, not {text!r}") from None
        if not self.least <= number <= self.most:
            raise ValueError(f"{expected}, not {text}")
        return number


NUMBER_OPTIONS = {
    "temperature": NumberOption(label="Temperature", least=0, most=100),
    "top_p": NumberOption(label="Top p", least=0, most=1),
    "top_k": NumberOption(label="Top k", least=0, most=1_000_000, is_whole=True),
    "min_p": NumberOption(label="Min p", least=0, most=1),
    "repetition_penalty": NumberOption(label="Repetition pen.", least=0.001, most=10),
    "presence_penalty": NumberOption(label="Presence pen.", least=-2, most=2),
    "frequency_penalty": NumberOption(label="Frequency pen.", least=-2, most=2),
    "seed": NumberOption(label="Seed", least=0, most=2**63 - 1, is_whole=True),
    "max_tokens": NumberOption(label="Max tokens", least=1, most=10_000_000, is_whole=True),
}

THINKING: Mapping[ThinkingChoice, str] = {"default": "Model default", "on": "On", "off": "Off"}
TOOLS = {"off": "Off", "on": "On, ask before calls that act outside", "ask": "On, ask before each call"}
"""Choices for the tools."""
DEFAULT = "default"
"""The value that unsets an option."""


def tools_choice(options: ChatOptions) -> str:
    """Return the key of TOOLS that the options have."""
    if not options.uses_tools:
        return "off"
    return "ask" if options.asks_before_tools else "on"


def with_tools(options: ChatOptions, choice: str) -> ChatOptions:
    """Return the options with a key of TOOLS."""
    return replace(options, uses_tools=choice != "off", asks_before_tools=choice == "ask")


def read_stop(text: str) -> tuple[str, ...]:
    """Return the stop strings: a JSON list, or the text itself.

    Raises ValueError.
    """
    if not text.strip():
        return ()
    if not text.lstrip().startswith("["):
        return (text,)
    try:
        return tuple(item for item in msgspec.json.decode(text, type=list[str]) if item)
    except (msgspec.MsgspecError, ValueError):
        raise ValueError('Stop strings must be one string or a JSON list such as ["a", "b"]') from None


def read_schema(text: str) -> Mapping[str, Any] | None:
    """Return the JSON schema; None for an empty text. Raises ValueError."""
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError):
        raise ValueError('JSON schema must be a JSON object such as {"type": "object"}') from None


def set_option(options: ChatOptions, text: str) -> ChatOptions:
    """Return the options with `NAME VALUE` set; the value `default` unsets it.

    Raises ValueError, which lists the names.
    """
    name, _, value = text.strip().partition(" ")
    name, value = name.lower().replace("-", "_"), value.strip()
    if name not in _READERS:
        raise ValueError(f"No option {name!r}. Options: {', '.join(_READERS)}")
    if not value:
        raise ValueError(f"/set {name} needs a value; `default` unsets it")
    return _READERS[name](options, "" if value == DEFAULT else value)


def describe_options(options: ChatOptions) -> str:
    """Return the options that are set, as one line; empty without any."""
    unset = ChatOptions()
    values = {
        **{name: getattr(options, name) for name in (*NUMBER_OPTIONS, "json_schema", "thinking")},
        "stop": ", ".join(map(repr, options.stop)) or None,
        "tools": tools_choice(options) if options.uses_tools else None,
    }
    return ", ".join(
        f"{name} {value}" for name, value in values.items() if value not in (None, getattr(unset, name, None))
    )


def _number_reader(name: str, option: NumberOption) -> Callable[[ChatOptions, str], ChatOptions]:
    def read(options: ChatOptions, text: str) -> ChatOptions:
        values: dict[str, Any] = {name: option.read(text)}
        return replace(options, **values)

    return read


def _choose(name: str, text: str, choices: Mapping[Any, str]) -> Any:
    if text not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {text!r}")
    return text


_READERS: dict[str, Callable[[ChatOptions, str], ChatOptions]] = {
    **{name: _number_reader(name, option) for name, option in NUMBER_OPTIONS.items()},
    "thinking": lambda options, text: replace(
        options, thinking=_choose("thinking", text or DEFAULT, THINKING)
    ),
    "stop": lambda options, text: replace(options, stop=read_stop(text)),
    "json_schema": lambda options, text: replace(options, json_schema=read_schema(text)),
    "tools": lambda options, text: with_tools(options, _choose("tools", text or "off", TOOLS)),
}

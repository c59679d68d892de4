"""Chat options as text: ranges, parsing, and `/set NAME VALUE`. Pure."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import msgspec

from mlxctl.chat.conversation import ChatOptions, ThinkingChoice
from mlxctl.ir import ContextOverflow, sampling_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberOption:
    """A numeric option.

    Its `range` is one of the annotated types that the server checks.
    """

    label: str
    range: Any

    def read(self, text: str) -> float | int | None:
        """Return the number; None for an empty text.

        Raises ValueError with the range.
        """
        if not text.strip():
            return None
        kind, limits = get_args(self.range)
        try:
            number: float | int = msgspec.convert(kind(text), self.range)
            # A whole number of more than 64 bits has no encoding.
            msgspec.json.encode(number)
        except (ValueError, OverflowError):
            expected = f"{'a whole number' if kind is int else 'a number'} {_limits(limits)}"
            raise ValueError(f"{self.label} must be {expected}, not {_shortened(text)!r}") from None
        return number


def _limits(limits: msgspec.Meta) -> str:
    """Return a range as words: `from 0 to 1`."""
    if limits.ge is not None and limits.le is not None:
        return f"from {limits.ge} to {limits.le}"
    least = f"of at least {limits.ge}" if limits.ge is not None else f"above {limits.gt}"
    return least if limits.le is None else f"{least} and at most {limits.le}"


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]} …"


_MAX_QUOTED = 40

NUMBER_OPTIONS = {
    "temperature": NumberOption(label="Temperature", range=sampling_ranges.Temperature),
    "top_p": NumberOption(label="Top p", range=sampling_ranges.TopP),
    "top_k": NumberOption(label="Top k", range=sampling_ranges.TopK),
    "min_p": NumberOption(label="Min p", range=sampling_ranges.MinP),
    "repetition_penalty": NumberOption(label="Repetition pen.", range=sampling_ranges.RepetitionPenalty),
    "presence_penalty": NumberOption(label="Presence pen.", range=sampling_ranges.AdditivePenalty),
    "frequency_penalty": NumberOption(label="Frequency pen.", range=sampling_ranges.AdditivePenalty),
    "seed": NumberOption(label="Seed", range=sampling_ranges.Seed),
    "max_tokens": NumberOption(label="Max tokens", range=sampling_ranges.MaxTokens),
}

THINKING: Mapping[ThinkingChoice, str] = {"default": "Model default", "on": "On", "off": "Off"}
OVERFLOW: Mapping[ContextOverflow | None, str] = {
    None: "Server default",
    "error": "Error",
    "drop_oldest": "Drop oldest",
    "compact": "Compact",
}
"""What the server does with a conversation that is too long."""
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
        "overflow": options.context_overflow,
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


def _choose(name: str, text: str, choices: Collection[Any]) -> Any:
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
    "overflow": lambda options, text: replace(
        options, context_overflow=_choose("overflow", text, get_args(ContextOverflow)) if text else None
    ),
    "tools": lambda options, text: with_tools(options, _choose("tools", text or "off", TOOLS)),
}

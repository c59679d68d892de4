"""The remembered theme, sampling values and display. File errors are ignored."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from mlxctl.chat.conversation import ChatOptions, ThinkingChoice
from mlxctl.ir import sampling_ranges
from mlxctl.state import locations

_MAX_BYTES = 10_000
_LIGHT_BACKGROUNDS = ("7", "15")


class RememberedSampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sampling settings of every new chat.

    None leaves a value to the model. A seed, stop strings, a schema and the system prompt belong to one chat
    and are not among them.
    """

    temperature: sampling_ranges.Temperature | None = None
    top_p: sampling_ranges.TopP | None = None
    top_k: sampling_ranges.TopK | None = None
    min_p: sampling_ranges.MinP | None = None
    repetition_penalty: sampling_ranges.RepetitionPenalty | None = None
    presence_penalty: sampling_ranges.AdditivePenalty | None = None
    frequency_penalty: sampling_ranges.AdditivePenalty | None = None
    max_tokens: sampling_ranges.MaxTokens | None = None
    thinking: ThinkingChoice = "default"

    @classmethod
    def of(cls, options: ChatOptions) -> "RememberedSampling":
        """Return the saved sampling options."""
        return cls(**{name: getattr(options, name) for name in cls.__struct_fields__})

    def beneath(self, options: ChatOptions) -> ChatOptions:
        """Return the options with the remembered values where they have none."""
        unset = ChatOptions()
        values = {
            name: getattr(self, name)
            for name in self.__struct_fields__
            if getattr(options, name) == getattr(unset, name)
        }
        return replace(options, **values)

    def describe(self) -> str:
        """Return the values as one line; empty without any."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return ", ".join(
            f"{name.replace('_', ' ')} {value}"
            for name, value in values.items()
            if value not in (None, "default")
        )


class _Stored(msgspec.Struct, omit_defaults=True):
    theme: str | None = None
    shows_statistics: bool = True
    shows_sidebar: bool = True
    sampling: msgspec.Raw = msgspec.Raw(b"{}")


class Preferences:
    """A small JSON file; nothing is stored without a path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @property
    def theme(self) -> str | None:
        """The saved theme, which may not exist any more."""
        return self._read().theme

    @property
    def sampling(self) -> RememberedSampling:
        """The saved sampling values; all unset if one of them is invalid."""
        try:
            return msgspec.json.decode(self._read().sampling, type=RememberedSampling)
        except (ValueError, RecursionError):
            return RememberedSampling()

    @property
    def shows_statistics(self) -> bool:
        """Whether answers have a line of statistics below them."""
        return self._read().shows_statistics

    def save_shows_statistics(self, value: bool) -> None:
        """Save whether later chats show statistics."""
        stored = self._read()
        stored.shows_statistics = value
        self._write(stored)

    @property
    def shows_sidebar(self) -> bool:
        """Whether wide terminals list the saved chats."""
        return self._read().shows_sidebar

    def save_shows_sidebar(self, value: bool) -> None:
        """Save whether later chats show the list of chats."""
        stored = self._read()
        stored.shows_sidebar = value
        self._write(stored)

    def save_theme(self, name: str) -> None:
        """Save the theme for later chats."""
        stored = self._read()
        stored.theme = name
        self._write(stored)

    def save_sampling(self, options: ChatOptions) -> None:
        """Save the sampling options of a chat."""
        stored = self._read()
        stored.sampling = msgspec.Raw(msgspec.json.encode(RememberedSampling.of(options)))
        self._write(stored)

    def _read(self) -> _Stored:
        try:
            if self._path is None or self._path.stat().st_size > _MAX_BYTES:
                return _Stored()
            return msgspec.json.decode(self._path.read_bytes(), type=_Stored)
        except (OSError, ValueError, RecursionError):
            return _Stored()

    def _write(self, stored: _Stored) -> None:
        if self._path is None:
            return
        partial = self._path.with_suffix(f".{os.getpid()}.tmp")
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.write_bytes(msgspec.json.encode(stored) + b"\n")
            partial.replace(self._path)


def preferences_file() -> Path:
    """Return the path of the file; it need not exist."""
    return locations.state_directory() / "screen.json"


def detect_terminal_theme(environment: Mapping[str, str] = os.environ) -> str:
    """Return a theme for the background in COLORFGBG; default: dark."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return "textual-light" if background in _LIGHT_BACKGROUNDS else "textual-dark"

"""Settings (F2, /settings): system prompt, sampling, thinking and demo tools.

Nothing is applied before every value is valid.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Select, Static, TextArea

from mlxctl.tui.conversation import ChatOptions, ThinkingChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class _NumberField:
    label: str
    least: float
    most: float
    is_whole: bool = False

    def read(self, text: str) -> float | int | None:
        """Return the number; None for an empty field. Raises ValueError."""
        if not text.strip():
            return None
        kind = "a whole number" if self.is_whole else "a number"
        expected = f"{self.label} must be {kind} from {self.least:g} to {self.most:g}"
        try:
            number = int(text) if self.is_whole else float(text)
        except ValueError:
            raise ValueError(f"{expected}, not {text!r}") from None
        if not self.least <= number <= self.most:
            raise ValueError(f"{expected}, not {text}")
        return number


_NUMBER_FIELDS = {
    "temperature": _NumberField(label="Temperature", least=0, most=100),
    "top_p": _NumberField(label="Top p", least=0.001, most=1),
    "top_k": _NumberField(label="Top k", least=0, most=1_000_000, is_whole=True),
    "min_p": _NumberField(label="Min p", least=0, most=1),
    "repetition_penalty": _NumberField(label="Repetition pen.", least=0.001, most=10),
    "presence_penalty": _NumberField(label="Presence pen.", least=-2, most=2),
    "frequency_penalty": _NumberField(label="Frequency pen.", least=-2, most=2),
    "seed": _NumberField(label="Seed", least=0, most=2**63 - 1, is_whole=True),
    "max_tokens": _NumberField(label="Max tokens", least=1, most=10_000_000, is_whole=True),
}
_THINKING: tuple[tuple[str, ThinkingChoice], ...] = (
    ("Model default", "default"),
    ("On", "on"),
    ("Off", "off"),
)
_TOOLS = (("Off", "off"), ("On, run calls automatically", "run"), ("On, ask before each call", "ask"))


class SettingsScreen(ModalScreen[ChatOptions | None]):
    """Returns the new options, or None when cancelled."""

    DEFAULT_CSS = """
    SettingsScreen { align: center middle;
        & > Vertical { width: 76; max-width: 98%; height: auto; max-height: 98%; padding: 0 2;
            border: round $primary;
            background: $surface; border-title-color: $primary; }
        & TextArea, & TextArea:focus { height: 3; border: none; background: $boost; padding: 0 1; }
        & Horizontal { height: 1; margin: 0; }
        & Horizontal.buttons { align-horizontal: right; margin: 1 0 0 0; }
        & Label { width: 17; color: $text-muted; }
        & Input { width: 1fr; background: $boost; margin: 0 1 0 0; } & Select { width: 1fr; }
        & Static.hint { color: $text-muted; }
        & Static#error { color: $text-error; height: auto; }
        & Button { margin: 0 0 0 2; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual API
        Binding("escape", "cancel", "Cancel"),
        Binding("ctrl+s", "save", "Apply", priority=True),
    ]

    def __init__(self, options: ChatOptions, *, tools_note: str) -> None:
        super().__init__()
        self._options = options
        self._tools_note = tools_note

    def compose(self) -> ComposeResult:
        """Yield one row per option; an empty field means the model's default."""
        with Vertical() as box:
            box.border_title = "Settings  ^S Apply  Esc Cancel"
            yield Static("System prompt", classes="hint")
            yield TextArea(self._options.system_prompt, id="system_prompt", placeholder="none")
            for pair in _pairs(list(_NUMBER_FIELDS)):
                with Horizontal():
                    for name in pair:
                        value = getattr(self._options, name)
                        yield Label(_NUMBER_FIELDS[name].label)
                        yield Input(
                            "" if value is None else f"{value}", placeholder="default", id=name, compact=True
                        )
            with Horizontal():
                yield Label("Stop strings")
                stops = msgspec.json.encode(self._options.stop).decode() if self._options.stop else ""
                yield Input(stops, placeholder='one string, or JSON: ["a", "b"]', id="stop", compact=True)
            with Horizontal():
                yield Label("JSON schema")
                schema = self._options.json_schema
                text = "" if schema is None else msgspec.json.encode(schema).decode()
                yield Input(text, placeholder="none: answers are free text", id="json_schema", compact=True)
            with Horizontal():
                yield Label("Thinking")
                yield Select(
                    _THINKING, value=self._options.thinking, allow_blank=False, id="thinking", compact=True
                )
            with Horizontal():
                yield Label("Demo tools")
                # Not a checkbox: its states differ only in color.
                yield Select(
                    _TOOLS, value=_tools_choice(self._options), allow_blank=False, id="tools", compact=True
                )
            yield Static(self._tools_note, classes="hint", markup=False)
            yield Static(id="error", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Apply", id="save", variant="primary", compact=True)
                yield Button("Cancel", id="cancel", compact=True)

    @on(Input.Submitted)
    @on(Button.Pressed, "#save")
    def action_save(self) -> None:
        """Validate all fields, then return the options."""
        try:
            numbers: dict[str, Any] = {
                name: number_field.read(self.query_one(f"#{name}", Input).value)
                for name, number_field in _NUMBER_FIELDS.items()
            }
            stop = read_stop(self.query_one("#stop", Input).value)
            schema = read_schema(self.query_one("#json_schema", Input).value)
        except ValueError as error:
            self.query_one("#error", Static).update(str(error))
            return
        self.dismiss(
            ChatOptions(
                system_prompt=self.query_one("#system_prompt", TextArea).text.strip(),
                **numbers,
                stop=stop,
                json_schema=schema,
                thinking=self._chosen_thinking(),
                uses_tools=self.query_one("#tools", Select).value != "off",
                asks_before_tools=self.query_one("#tools", Select).value == "ask",
            )
        )

    @on(Button.Pressed, "#cancel")
    def action_cancel(self) -> None:
        self.dismiss(None)

    def _chosen_thinking(self) -> ThinkingChoice:
        chosen = self.query_one("#thinking", Select).value
        return next(value for _, value in _THINKING if value == chosen)


def _pairs(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[index : index + 2] for index in range(0, len(names), 2))


def _tools_choice(options: ChatOptions) -> str:
    if not options.uses_tools:
        return "off"
    return "ask" if options.asks_before_tools else "run"


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
    """Return the JSON schema; None for an empty field. Raises ValueError."""
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError):
        raise ValueError('JSON schema must be a JSON object such as {"type": "object"}') from None

"""Settings (F2, /settings): system prompt, sampling, thinking and tools.

Nothing is applied before every value is valid.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Select, Static, TextArea

from mlxctl.chat.conversation import ChatOptions
from mlxctl.chat.option_values import (
    NUMBER_OPTIONS,
    OVERFLOW,
    THINKING,
    TOOLS,
    read_schema,
    read_stop,
    tools_choice,
    with_tools,
)
from mlxctl.chat.widgets.text_input import TextInput
from mlxctl.ir import ContextOverflow

Choice = TypeVar("Choice")


class SettingsScreen(ModalScreen[ChatOptions | None]):
    """Returns the new options, or None when cancelled."""

    DEFAULT_CSS = """
    SettingsScreen { align: center middle;
        & > Vertical { width: 76; max-width: 98%; height: auto; max-height: 98%; padding: 0 2;
            border: round $primary;
            background: $surface; border-title-color: $primary; }
        & TextArea, & TextArea:focus { height: 3; border: none; background: $foreground 5%; padding: 0 1; }
        & Horizontal { height: 1; margin: 0; }
        & Horizontal.buttons { align-horizontal: right; margin: 1 0 0 0; }
        & Label { width: 17; color: $text-muted; }
        & Input { width: 1fr; background: $foreground 5%; margin: 0 1 0 0; }
        & Select { width: 1fr; margin: 0 1 0 0; } & SelectCurrent { background: $foreground 5%; }
        & Static.hint { color: $text-muted; }
        & Static#error { color: $text-error; height: auto; }
        & Button { margin: 0 0 0 2; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual API
        Binding("escape,ctrl+c", "cancel", "Cancel"),
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
            for pair in _pairs(list(NUMBER_OPTIONS)):
                with Horizontal():
                    for name in pair:
                        value = getattr(self._options, name)
                        yield Label(NUMBER_OPTIONS[name].label)
                        yield TextInput(
                            "" if value is None else f"{value}", placeholder="default", id=name, compact=True
                        )
            with Horizontal():
                yield Label("Stop strings")
                stops = msgspec.json.encode(self._options.stop).decode() if self._options.stop else ""
                yield TextInput(stops, placeholder='one string, or JSON: ["a", "b"]', id="stop", compact=True)
            with Horizontal():
                yield Label("JSON schema")
                schema = self._options.json_schema
                text = "" if schema is None else msgspec.json.encode(schema).decode()
                yield TextInput(
                    text, placeholder="none: answers are free text", id="json_schema", compact=True
                )
            with Horizontal():
                yield Label("Thinking")
                yield Select(
                    [(label, choice) for choice, label in THINKING.items()],
                    value=self._options.thinking,
                    allow_blank=False,
                    id="thinking",
                    compact=True,
                )
            with Horizontal():
                yield Label("Context overflow")
                yield Select[ContextOverflow | None](
                    [(label, choice) for choice, label in OVERFLOW.items()],
                    value=self._options.context_overflow,
                    allow_blank=False,
                    id="overflow",
                    compact=True,
                )
            with Horizontal():
                yield Label("Tools")
                # Not a checkbox: its states differ only in color.
                yield Select(
                    [(label, choice) for choice, label in TOOLS.items()],
                    value=tools_choice(self._options),
                    allow_blank=False,
                    id="tools",
                    compact=True,
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
                name: number_option.read(self.query_one(f"#{name}", Input).value)
                for name, number_option in NUMBER_OPTIONS.items()
            }
            stop = read_stop(self.query_one("#stop", Input).value)
            schema = read_schema(self.query_one("#json_schema", Input).value)
        except ValueError as error:
            self.query_one("#error", Static).update(str(error))
            return
        options = replace(
            self._options,
            system_prompt=self.query_one("#system_prompt", TextArea).text.strip(),
            **numbers,
            stop=stop,
            json_schema=schema,
            thinking=self._chosen("thinking", THINKING),
            context_overflow=self._chosen("overflow", OVERFLOW),
        )
        self.dismiss(with_tools(options, str(self.query_one("#tools", Select).value)))

    @on(Button.Pressed, "#cancel")
    def action_cancel(self) -> None:
        self.dismiss(None)

    def _chosen(self, name: str, choices: Mapping[Choice, str]) -> Choice:
        chosen = self.query_one(f"#{name}", Select).value
        return next(choice for choice in choices if choice == chosen)


def _pairs(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[index : index + 2] for index in range(0, len(names), 2))

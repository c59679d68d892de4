"""Anthropic's tools that the client runs: schemas that requests leave out.

Such a tool has a dated type, such as `bash_20250124`, and no `input_schema`: Anthropic's models know its
arguments. Other models get the definitions. Tools that Anthropic runs are not here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlxctl.protocols.anthropic import messages_schema as schema

_STRING, _INTEGER = {"type": "string"}, {"type": "integer"}
_POINT = {"type": "array", "items": _INTEGER, "minItems": 2, "maxItems": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTool:
    """A tool with a published schema.

    `describe` returns its description for one request.
    """

    name: str
    parameters: Mapping[str, Any]
    describe: Callable[[schema.AnthropicTool], str]


def client_tool(kind: str | None) -> ClientTool | None:
    """Return the tool of a dated type, None for any other type."""
    return None if kind is None else _TOOLS.get(kind)


def _object(properties: Mapping[str, Any], *required: str) -> Mapping[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _choice(*values: str) -> Mapping[str, Any]:
    return {"type": "string", "enum": list(values)}


def _bash() -> ClientTool:
    parameters = _object(
        {
            "command": {"type": "string", "description": "The command to run"},
            "restart": {"type": "boolean", "description": "Restart the shell instead"},
        }
    )
    text = "Run a command in a bash session that keeps its state between calls."
    return ClientTool(name="bash", parameters=parameters, describe=lambda _: text)


def _editor(name: str, *commands: str, inserted: str) -> ClientTool:
    parameters = _object(
        {
            "command": _choice("view", "create", "str_replace", "insert", *commands),
            "path": {"type": "string", "description": "The file or directory"},
            "view_range": {**_POINT, "description": "First and last line to view; -1 is the last one"},
            "file_text": {"type": "string", "description": "The content of a created file"},
            "old_str": {"type": "string", "description": "Text to replace, which must occur once"},
            "new_str": {"type": "string", "description": "The replacement"},
            "insert_line": {"type": "integer", "description": "Insert after this line; 0 is the beginning"},
            inserted: {"type": "string", "description": "The replacement, or the text to insert"},
        },
        "command",
        "path",
    )

    def describe(tool: schema.AnthropicTool) -> str:
        limit = f" Views show {tool.max_characters} characters." if tool.max_characters else ""
        return f"View, create and edit text files.{limit}"

    return ClientTool(name=name, parameters=parameters, describe=describe)


def _memory() -> ClientTool:
    parameters = _object(
        {
            "command": _choice("view", "create", "str_replace", "insert", "delete", "rename"),
            "path": {"type": "string", "description": "A path below /memories"},
            "view_range": {**_POINT, "description": "First and last line to view"},
            "file_text": _STRING,
            "old_str": _STRING,
            "new_str": _STRING,
            "insert_line": _INTEGER,
            "insert_text": _STRING,
            "old_path": {"type": "string", "description": "The path to rename"},
            "new_path": _STRING,
        },
        "command",
    )
    text = "Keep notes in files below /memories, which stay between conversations. View the directory first."
    return ClientTool(name="memory", parameters=parameters, describe=lambda _: text)


_FIRST_ACTIONS = (
    "key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click",
    "double_click", "screenshot", "cursor_position",
)  # fmt: skip
_LATER_ACTIONS = ("left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "triple_click")


def _computer(*actions: str) -> ClientTool:
    properties: dict[str, Any] = {
        "action": _choice(*actions),
        "coordinate": {**_POINT, "description": "x and y in pixels"},
        "text": {"type": "string", "description": "Text to type, or keys such as ctrl+s"},
    }
    if "scroll" in actions:
        properties |= {
            "start_coordinate": _POINT,
            "scroll_direction": _choice("up", "down", "left", "right"),
            "scroll_amount": _INTEGER,
            "duration": {"type": "number", "description": "Seconds"},
        }
    if "zoom" in actions:
        properties["region"] = {**_POINT, "minItems": 4, "maxItems": 4, "description": "x0, y0, x1, y1"}

    def describe(tool: schema.AnthropicTool) -> str:
        size = f" of {tool.display_width_px} x {tool.display_height_px} pixels"
        return f"Use a mouse and a keyboard, and take screenshots, on a screen{size}."

    return ClientTool(name="computer", parameters=_object(properties, "action"), describe=describe)


_TOOLS: Mapping[str, ClientTool] = {
    "bash_20241022": _bash(),
    "bash_20250124": _bash(),
    "text_editor_20241022": _editor("str_replace_editor", "undo_edit", inserted="new_str"),
    "text_editor_20250124": _editor("str_replace_editor", "undo_edit", inserted="new_str"),
    "text_editor_20250429": _editor("str_replace_based_edit_tool", inserted="insert_text"),
    "text_editor_20250728": _editor("str_replace_based_edit_tool", inserted="insert_text"),
    "memory_20250818": _memory(),
    "computer_20241022": _computer(*_FIRST_ACTIONS),
    "computer_20250124": _computer(*_FIRST_ACTIONS, *_LATER_ACTIONS),
    "computer_20251124": _computer(*_FIRST_ACTIONS, *_LATER_ACTIONS, "zoom"),
}

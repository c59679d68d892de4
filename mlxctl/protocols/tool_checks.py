"""Checks of tools that all protocols share."""

from collections.abc import Collection, Sequence

from mlxctl.ir import ToolChoice
from mlxctl.ir.errors import InvalidRequest


def check_unique_names(names_with_paths: Sequence[tuple[str, str]]) -> None:
    """Raise InvalidRequest if two (name, path) pairs have the same name.

    The error names the later path.
    """
    seen: set[str] = set()
    for name, path in names_with_paths:
        if name in seen:
            raise InvalidRequest(
                f"{path} is {name!r}, the name of an earlier tool; give each tool its own name", param=path
            )
        seen.add(name)


def check_tool_choice(choice: ToolChoice, offered: Collection[str], *, param: str, name_param: str) -> None:
    """Raise InvalidRequest if `choice` forces a tool that is not offered."""
    if choice.is_forced and not offered:
        raise InvalidRequest(
            f"{param} forces a tool call, but no tool is offered; send tools, or change tool_choice",
            param=param,
        )
    if choice.mode == "named" and choice.name not in offered:
        raise InvalidRequest(
            f"{name_param} is {choice.name!r}, which is not the name of an offered tool", param=name_param
        )


def check_result_id(call_id: str, known_ids: Collection[str], *, path: str) -> None:
    """Raise InvalidRequest if a tool result answers no earlier call."""
    if call_id not in known_ids:
        raise InvalidRequest(
            f"{path} is {call_id!r}, but no earlier message calls a tool with that id; send the message "
            "with the call too",
            param=path,
        )

"""Calls and results of OpenAI's shell and patch tools in histories.

Such tools cannot be offered here, but the model is shown what was done with them.
"""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from mlxctl.ir import TextPart, ToolCallPart, ToolResultPart
from mlxctl.protocols.decoding import check_nesting, decode_part
from mlxctl.protocols.validation_errors import missing


class ShellCall(Struct):
    """A `shell_call` or `local_shell_call`."""

    action: dict[str, Any]
    call_id: str | None = None
    id: str | None = None


class PatchCall(Struct):
    """An `apply_patch_call`."""

    operation: dict[str, Any]
    call_id: str


class ShellOutcome(Struct):
    """How a command ended; `type` is `exit` or `timeout`."""

    type: str
    exit_code: int | None = None


class CommandOutput(Struct):
    """What one command wrote."""

    stdout: str = ""
    stderr: str = ""
    outcome: ShellOutcome | None = None


class ShellOutput(Struct):
    """A `shell_call_output`."""

    call_id: str
    output: list[CommandOutput]


class LocalShellOutput(Struct):
    """A `local_shell_call_output`; `id` is that of the call."""

    output: str
    id: str | None = None
    call_id: str | None = None


class PatchOutput(Struct):
    """An `apply_patch_call_output`."""

    call_id: str
    output: str | None = None
    status: Literal["completed", "failed"] = "completed"


_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "local_shell_call": msgspec.json.Decoder(ShellCall),
    "local_shell_call_output": msgspec.json.Decoder(LocalShellOutput),
    "shell_call": msgspec.json.Decoder(ShellCall),
    "shell_call_output": msgspec.json.Decoder(ShellOutput),
    "apply_patch_call": msgspec.json.Decoder(PatchCall),
    "apply_patch_call_output": msgspec.json.Decoder(PatchOutput),
}
CLIENT_TOOL_PREFIXES = {
    "local_shell_call": "lsh",
    "local_shell_call_output": "lsho",
    "shell_call": "sh",
    "shell_call_output": "sho",
    "apply_patch_call": "apc",
    "apply_patch_call_output": "apco",
}
"""The types of such items, with the prefix of their ids."""


def client_tool_part(item: msgspec.Raw, kind: str, path: str) -> ToolCallPart | ToolResultPart:
    """Return an item as a call or a result. Raises InvalidRequest.

    A call has the name of its tool and its action or operation as arguments.
    """
    name = kind.removesuffix("_call")
    match decode_part(item, _DECODERS[kind], path):
        case ShellCall() as call:
            check_nesting(call.action, f"{path}.action")
            return _call(name, _id(call, path), call.action)
        case PatchCall() as call:
            check_nesting(call.operation, f"{path}.operation")
            return _call(name, call.call_id, call.operation)
        case ShellOutput() as result:
            return _result(result.call_id, "\n".join(filter(None, map(_written, result.output))))
        case PatchOutput() as result:
            text = (
                result.output or f"The patch was {'applied' if result.status == 'completed' else 'refused'}."
            )
            return _result(result.call_id, text, is_error=result.status == "failed")
        case result:
            return _result(_id(result, path), result.output)


def _id(item: ShellCall | LocalShellOutput, path: str) -> str:
    found = item.call_id or item.id
    if not found:
        raise missing(f"{path}.call_id")
    return found


def _written(output: CommandOutput) -> str:
    """Return what a command wrote, and how it failed."""
    end, outcome = "", output.outcome
    if outcome is not None and outcome.type == "timeout":
        end = "(timed out)"
    elif outcome is not None and outcome.exit_code:
        end = f"(exit code {outcome.exit_code})"
    return "\n".join(filter(None, (output.stdout.rstrip("\n"), output.stderr.rstrip("\n"), end)))


def _call(name: str, call_id: str, arguments: dict[str, Any]) -> ToolCallPart:
    return ToolCallPart(id=call_id, name=name, arguments=msgspec.json.encode(arguments).decode())


def _result(call_id: str, text: str, *, is_error: bool = False) -> ToolResultPart:
    return ToolResultPart(call_id=call_id, content=(TextPart(text=text),) if text else (), is_error=is_error)

"""What shapes of conversation a chat template takes, found out by rendering small ones once, when the model is loaded."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlxctl.adapters.chat_template import ChatTemplate, TemplateMessage
from mlxctl.errors import InvalidRequest

PROBE_CALL_NAME = "probe_tool"
PROBE_CALL_ARGUMENTS = {"subject": "probe argument"}
_RESULT = "probe result"
# Mistral's templates insist on ids of nine letters and digits.
_CALL_ID = "probecall"
_TOOL = {
    "type": "function",
    "function": {
        "name": PROBE_CALL_NAME,
        "description": "A tool.",
        "parameters": {"type": "object", "properties": {"subject": {"type": "string"}}, "required": ["subject"]},
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateShape:
    """What the template renders without losing it.

    `rendered_call` is how a past tool call looks, "" if it is not shown; `wants_arguments_text` says that its arguments have to be
    JSON text instead of an object.
    """

    takes_system: bool = False
    takes_later_system: bool = False
    takes_repeated_roles: bool = False
    takes_tools: bool = False
    takes_results: bool = False
    rendered_call: str = ""
    wants_arguments_text: bool = False

    @property
    def takes_calls(self) -> bool:
        """Whether past tool calls are shown."""
        return bool(self.rendered_call)


def probe_shape(template: ChatTemplate) -> TemplateShape:
    """Render the probes."""
    user, reply = _said("user", "probe question"), _said("assistant", "probe reply")
    system, later = _said("system", "probe system"), _said("system", "probe later")
    other_user, other_reply = _said("user", "probe more"), _said("assistant", "probe other")
    result = {"role": "tool", "content": _RESULT, "tool_call_id": _CALL_ID, "name": PROBE_CALL_NAME}
    with_object, with_text = (
        _render(template, [user, _call(arguments), result, reply], tools=[_TOOL])
        for arguments in (PROBE_CALL_ARGUMENTS, json.dumps(PROBE_CALL_ARGUMENTS))
    )
    wants_text = not _shows_call(with_object) and _shows_call(with_text)
    rendered_call = with_text if wants_text else with_object
    return TemplateShape(
        takes_system=_shows(template, [system, user]),
        takes_later_system=_shows(template, [system, user, later]) and _shows(template, [user, reply, later, other_user]),
        takes_repeated_roles=_shows(template, [user, other_user]) and _shows(template, [user, reply, other_reply, other_user]),
        takes_tools=PROBE_CALL_NAME in _render(template, [user], tools=[_TOOL]),
        takes_results=_RESULT in rendered_call,
        rendered_call=rendered_call if _shows_call(rendered_call) else "",
        wants_arguments_text=wants_text,
    )


def _call(arguments: object) -> TemplateMessage:
    function = {"name": PROBE_CALL_NAME, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": _CALL_ID, "type": "function", "function": function}]}


def _shows_call(rendered: str) -> bool:
    """Whether the call is there: by its argument, since the definition of the tool shows its name too."""
    return PROBE_CALL_ARGUMENTS["subject"] in rendered


def _said(role: str, content: str) -> TemplateMessage:
    return {"role": role, "content": content}


def _shows(template: ChatTemplate, messages: Sequence[TemplateMessage]) -> bool:
    rendered = _render(template, messages)
    return all(message["content"] in rendered for message in messages)


def _render(template: ChatTemplate, messages: Sequence[TemplateMessage], tools: Sequence[Mapping[str, Any]] = ()) -> str:
    try:
        return template.render(messages, tools=tools)
    except InvalidRequest:
        return ""

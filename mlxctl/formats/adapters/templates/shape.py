"""What a chat template supports, found by rendering small conversations once."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from mlxctl.formats.adapters.templates.chat_template import ChatTemplate, TemplateMessage
from mlxctl.ir import ToolSpec
from mlxctl.ir.errors import InvalidRequest

PROBE_CALL_NAME = "probe_tool"
PROBE_CALL_ARGUMENTS = {"subject": "probe argument"}
PROBE_TOOL = ToolSpec(
    name=PROBE_CALL_NAME,
    description="A tool.",
    parameters={"type": "object", "properties": {"subject": {"type": "string"}}, "required": ["subject"]},
)
_OTHER_ARGUMENTS = {"subject": "probe other argument"}
_RESULT, _OTHER_RESULT = "probe result", "probe other result"
_TEXT, _THOUGHT = "probe text", "probe thought"
# Ids as clients send them; Mistral's older templates require nine letters and digits.
_CALL_IDS = ("call_0123456789abcdef01234567", "probecall")
_THINKING_FIELDS = ("reasoning_content", "thinking", "reasoning")
_EFFORT_VARIABLES = ("reasoning_effort", "thinking_effort")
# In ascending order; templates have two names for no thinking.
_EFFORTS = {"none": 0, "no_think": 0, "minimal": 1, "low": 2, "medium": 3, "high": 4, "xhigh": 5, "max": 6}
_TOOL = {
    "type": "function",
    "function": {
        "name": PROBE_TOOL.name,
        "description": PROBE_TOOL.description,
        "parameters": dict(PROBE_TOOL.parameters),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateShape:
    """What the template renders without loss.

    `takes_system` is that of a conversation without tools: beside tools some templates lose the message.
    `rendered_call` is a conversation with a past tool call, "" if none is rendered, and `generated_call` the
    end of it that the model would have generated. Requirements for calls: `wants_arguments_text`, JSON text
    instead of an object; `wants_null_content`, null instead of an empty text; `wants_short_ids`, ids of nine
    letters and digits. `thinking_field` is the field under which past thinking is rendered in a turn that
    calls tools ("" if none), and `keeps_thinking` is true if it is rendered in earlier turns, too. `efforts`
    are the values that `effort_variable` takes, empty if it takes any. `space_before_call` is the white space
    between the text of a message and its call.
    """

    takes_system: bool = False
    takes_lone_system: bool = False
    takes_later_system: bool = False
    takes_repeated_roles: bool = False
    takes_leading_assistant: bool = False
    takes_empty_answers: bool = False
    takes_unanswered_results: bool = False
    takes_tools: bool = False
    takes_results: bool = False
    takes_result_images: bool = False
    takes_calls_without_tools: bool = False
    takes_parallel_calls: bool = False
    takes_text_beside_calls: bool = False
    takes_text_beside_thinking: bool = False
    space_before_call: str = ""
    rendered_call: str = ""
    generated_call: str = ""
    wants_arguments_text: bool = False
    wants_null_content: bool = False
    wants_short_ids: bool = False
    thinking_field: str = ""
    keeps_thinking: bool = False
    effort_variable: str = ""
    efforts: tuple[str, ...] = ()

    @property
    def takes_calls(self) -> bool:
        """Whether past tool calls are rendered."""
        return bool(self.rendered_call)

    @property
    def after_call(self) -> str:
        """The text from a past call's argument up to the call's result."""
        return self.rendered_call.partition(PROBE_CALL_ARGUMENTS["subject"])[2].partition(_RESULT)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallStyle:
    """One way to represent a past call in a message."""

    call_id: str
    content: str | None
    as_text: bool

    def call(self, **more: Any) -> TemplateMessage:
        entries = [self._entry(self.call_id, PROBE_CALL_ARGUMENTS)]
        return {"role": "assistant", "content": self.content, "tool_calls": entries, **more}

    def calls(self) -> TemplateMessage:
        entries = [
            self._entry(self.call_id, PROBE_CALL_ARGUMENTS),
            self._entry(self.call_id[::-1], _OTHER_ARGUMENTS),
        ]
        return {"role": "assistant", "content": self.content, "tool_calls": entries}

    def result(self) -> TemplateMessage:
        return _result(self.call_id, _RESULT)

    def results(self) -> list[TemplateMessage]:
        return [self.result(), _result(self.call_id[::-1], _OTHER_RESULT)]

    def _entry(self, call_id: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        function = {
            "name": PROBE_CALL_NAME,
            "arguments": json.dumps(arguments) if self.as_text else dict(arguments),
        }
        return {"id": call_id, "type": "function", "function": function}


_USER, _REPLY = {"role": "user", "content": "probe question"}, {"role": "assistant", "content": "probe reply"}
_OTHER_USER, _OTHER_REPLY = (
    {"role": "user", "content": "probe more"},
    {"role": "assistant", "content": "probe other"},
)
_SYSTEM, _LATER = {"role": "system", "content": "probe system"}, {"role": "system", "content": "probe later"}
_PLAIN_CALL = _CallStyle(call_id=_CALL_IDS[0], content="", as_text=False)


def probe_shape(template: ChatTemplate, *, placeholder: str | None = None) -> TemplateShape:
    """Render the probe conversations; two suffice for a template that renders nothing.

    `placeholder` marks an image, None without vision.
    """
    if not _shows(template, [_USER]) and not _shows(template, [_SYSTEM, _USER]):
        return TemplateShape()
    style = _find_call_style(template)
    rendered_call = "" if style is None else _rendered_call(template, style)
    style = style or _PLAIN_CALL
    prompt = _render(template, [_USER], tools=[_TOOL])
    field = _thinking_field(template, style)
    beside = _rendered_beside(template, style, content=_TEXT)
    after_text = beside.rpartition(_TEXT)[2]
    return TemplateShape(
        takes_system=_shows(template, [_SYSTEM, _USER])
        and _shows(template, [_SYSTEM, _USER, _REPLY, _OTHER_USER]),
        takes_lone_system=_shows(template, [_SYSTEM]),
        takes_later_system=_shows(template, [_SYSTEM, _USER, _LATER])
        and _shows(template, [_USER, _REPLY, _LATER, _OTHER_USER]),
        takes_repeated_roles=_shows(template, [_USER, _OTHER_USER])
        and _shows(template, [_USER, _REPLY, _OTHER_REPLY, _OTHER_USER]),
        takes_leading_assistant=_shows(template, [_REPLY, _USER])
        and (not rendered_call or _shows(template, [style.call(), style.result(), _REPLY, _USER], [_TOOL])),
        takes_empty_answers=_shows(template, [_USER, {"role": "assistant", "content": ""}, _OTHER_USER]),
        takes_unanswered_results=_shows(
            template, [_USER, style.call() if rendered_call else _REPLY, style.result(), _OTHER_USER], [_TOOL]
        ),
        takes_tools=PROBE_CALL_NAME in prompt,
        takes_results=_takes_results(template, style, rendered_call=rendered_call, prompt=prompt),
        takes_result_images=placeholder is not None and _takes_result_images(template, style, placeholder),
        takes_calls_without_tools=bool(rendered_call)
        and _shows(template, [_USER, style.call(), style.result(), _REPLY]),
        takes_parallel_calls=_takes_parallel_calls(template, style),
        takes_text_beside_calls=bool(beside),
        takes_text_beside_thinking=bool(
            _rendered_beside(template, style, content=_TEXT, **{field or "": _THOUGHT})
        ),
        space_before_call=after_text[: len(after_text) - len(after_text.lstrip())],
        rendered_call=rendered_call,
        generated_call=_generated_part(rendered_call, prompt),
        wants_arguments_text=style.as_text,
        wants_null_content=style.content is None,
        wants_short_ids=style.call_id == _CALL_IDS[1],
        thinking_field=field,
        keeps_thinking=_THOUGHT
        in _render(template, [_USER, {**_REPLY, field or _THINKING_FIELDS[0]: _THOUGHT}, _OTHER_USER]),
        effort_variable=(effort_variable := _effort_variable(template)),
        efforts=_find_efforts(template, effort_variable),
    )


def nearest_effort(effort: str, efforts: Sequence[str]) -> str:
    """Return the value of `efforts` nearest to a reasoning effort.

    The higher of two that are equally near.
    """
    if not efforts or effort in efforts or effort not in _EFFORTS:
        return effort
    rank = _EFFORTS[effort]
    return min(efforts, key=lambda known: (abs(_EFFORTS[known] - rank), -_EFFORTS[known]))


def _effort_variable(template: ChatTemplate) -> str:
    return next((name for name in _EFFORT_VARIABLES if name in template.variables), "")


def _find_efforts(template: ChatTemplate, variable: str) -> tuple[str, ...]:
    """Return the reasoning efforts that the template accepts.

    Empty if it accepts all, or none.
    """
    if not variable:
        return ()
    efforts = tuple(effort for effort in _EFFORTS if _render(template, [_USER], options={variable: effort}))
    return () if len(efforts) == len(_EFFORTS) else efforts


def _find_call_style(template: ChatTemplate) -> _CallStyle | None:
    """Return the simplest representation of a call that the template renders.

    Some templates print an object of arguments as Python does, and expect JSON text.
    """
    printed: _CallStyle | None = None
    for call_id, content, as_text in product(_CALL_IDS, ("", None), (False, True)):
        style = _CallStyle(call_id=call_id, content=content, as_text=as_text)
        rendered = _rendered_call(template, style)
        if rendered and repr(PROBE_CALL_ARGUMENTS) not in rendered:
            return style
        printed = printed or (style if rendered else None)
    return printed


def _rendered_call(template: ChatTemplate, style: _CallStyle) -> str:
    """Return a rendered turn with a call; "" without the call's argument.

    The tool's name is rendered by its definition anyway.
    """
    rendered = _render(template, [_USER, style.call(), style.result(), _REPLY], tools=[_TOOL])
    return rendered if PROBE_CALL_ARGUMENTS["subject"] in rendered else ""


def _generated_part(rendered: str, prompt: str) -> str:
    """Return what the model would have generated after the prompt.

    The prompt may open a thought that the rendered turn does not have.
    """
    shared = _shared_prefix(prompt, rendered)
    if shared != prompt:
        shared = shared[: max(map(shared.rfind, "\n>]")) + 1]
    return rendered[len(shared) :]


def _shared_prefix(one: str, other: str) -> str:
    length = next(
        (index for index, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )
    return one[:length]


def _takes_results(template: ChatTemplate, style: _CallStyle, *, rendered_call: str, prompt: str) -> bool:
    """Whether tool messages are rendered.

    A template without tools or calls is not rendered again.
    """
    if rendered_call or PROBE_CALL_NAME not in prompt:
        return _RESULT in rendered_call
    return _shows(template, [_USER, _REPLY, style.result(), _OTHER_REPLY], tools=[_TOOL])


def _takes_parallel_calls(template: ChatTemplate, style: _CallStyle) -> bool:
    rendered = _render(template, [_USER, style.calls(), *style.results(), _REPLY], tools=[_TOOL])
    texts = (*PROBE_CALL_ARGUMENTS.values(), *_OTHER_ARGUMENTS.values(), _RESULT, _OTHER_RESULT)
    return all(text in rendered for text in texts)


def _rendered_beside(template: ChatTemplate, style: _CallStyle, **more: str) -> str:
    """Return a rendered call with the texts of more fields.

    "" if one of them is not shown.
    """
    texts = {name: text for name, text in more.items() if name}
    rendered = _render(template, [_USER, style.call(**texts), style.result()], tools=[_TOOL])
    shown = (PROBE_CALL_ARGUMENTS["subject"], *texts.values())
    return rendered if all(text in rendered for text in shown) else ""


def _takes_result_images(template: ChatTemplate, style: _CallStyle, placeholder: str) -> bool:
    shown = [{"type": "image"}, {"type": "text", "text": _RESULT}]
    rendered = _render(template, [_USER, style.call(), {**style.result(), "content": shown}], tools=[_TOOL])
    return rendered.count(placeholder) == 1 and _RESULT in rendered


def _thinking_field(template: ChatTemplate, style: _CallStyle) -> str:
    return next(
        (field for field in _THINKING_FIELDS if _rendered_beside(template, style, **{field: _THOUGHT})), ""
    )


def _result(call_id: str, content: str) -> TemplateMessage:
    return {"role": "tool", "content": content, "tool_call_id": call_id, "name": PROBE_CALL_NAME}


def _shows(
    template: ChatTemplate, messages: Sequence[TemplateMessage], tools: Sequence[Mapping[str, Any]] = ()
) -> bool:
    """Whether message texts and call arguments are rendered."""
    rendered = _render(template, messages, tools)
    texts = [message["content"] for message in messages if message["content"]]
    if any("tool_calls" in message for message in messages):
        texts.append(PROBE_CALL_ARGUMENTS["subject"])
    return bool(rendered) and all(text in rendered for text in texts)


def _render(
    template: ChatTemplate,
    messages: Sequence[TemplateMessage],
    tools: Sequence[Mapping[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
) -> str:
    try:
        return template.render(messages, tools=tools, options=options)
    except InvalidRequest:
        return ""
